// Tags: kernels, pure
import { binaryFunctions } from "@backplane/conformance/functions";
import {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryInput,
  dtypeBytes,
  type FloatType,
  floatTypes,
} from "@backplane/core";
import { assert } from "chai";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { broadcasts, stridedPlaces } from "./shapes.js";
import { type BufferRegion, encode, lastRounding, random, rounded, spacing, withDevice } from "./support.js";

const units: Readonly<Record<ArithmeticKind, number>> = {
  add: 1,
  sub: 1,
  mul: 1,
  div: 2.5,
  max: 0,
  min: 0,
  ...{ mod: 1, rem: 0, floorDiv: 2.5, atan2: 4, pow: 6 },
};

function numbers(count: number, seed: number, from = -4, to = 4): Float32Array {
  const next = random(seed);
  return Float32Array.from({ length: count }, () => from + (to - from) * next());
}

function assertClose(
  results: Float32Array,
  expected: readonly number[],
  { dtype, kind }: { dtype: FloatType; kind: ArithmeticKind },
): void {
  for (const [i, exact] of expected.entries()) {
    if (results[i] === rounded([exact], dtype)[0]) continue;
    const bound = units[kind] * spacing(exact, "f32") + lastRounding(exact, dtype);
    assert.isTrue(Math.abs(results[i]! - exact) <= bound, `element ${i} is ${results[i]}, not ${exact}`);
  }
}

describe("webgpu binary", () => {
  const device = withDevice();

  for (const dtype of floatTypes)
    for (const kind of arithmeticKinds) {
      it(`${kind} in ${dtype} is accurate, elementwise and with scalars`, async () => {
        const n = 1001;
        const a = rounded(numbers(n, 1, kind === "pow" ? 0 : -4), dtype);
        const b = rounded(numbers(n, 2), dtype);
        for (const offset of [0, dtypeBytes[dtype]]) {
          const regions = { a: device().place(a, dtype, offset), b: device().place(b, dtype) };
          const output = device().place(new Float32Array(n), dtype);
          const forms: readonly [BinaryInput<DeviceMemory>, BinaryInput<DeviceMemory>][] = [
            [
              { region: regions.a, strides: [1] },
              { region: regions.b, strides: [1] },
            ],
            [{ scalar: 1.5 }, { region: regions.b, strides: [1] }],
            [{ region: regions.a, strides: [1] }, { scalar: -2.25 }],
          ];
          for (const [x, y] of forms) {
            device().run("binary", { dtype, kind, shape: [n], n, a: x, b: y, output });
            const expected = Array.from({ length: n }, (_, i) =>
              binaryFunctions[kind]("scalar" in x ? x.scalar : a[i]!, "scalar" in y ? y.scalar : b[i]!),
            );
            assertClose(await device().numbers(output, dtype), expected, { dtype, kind });
          }
        }
      });
    }

  it("pow has signs, zeros and whole exponents right", async () => {
    const pairs = [
      ...[
        [-2, 3],
        [-2, 2],
        [-3, -3],
        [-8, 0],
        [0, 0],
        [0, 2.5],
        [5, 0],
        [1, 1e10],
        [-1, 16777217],
        [2, 100],
        [2, -100],
      ],
      ...[
        [1.0000001, 1e7],
        [0.5, 120],
        [10, -37],
        [1e-5, 7],
        [9, 0.5],
        [1e30, 1.25],
        [-1.5, 31],
        [-1.5, 101],
      ],
      ...[
        [1e10, 30],
        [1e10, -30],
        [0.999, 1e6],
        [3, 65],
        [-3, 65],
        [-3, 66],
        [1e-12, -3],
        [0, 0.01],
        [0, -0.01],
      ],
      // Long products of the exponent with the logarithm.
      ...[
        [1.4009000062942505, -218.08535766601562],
        [0.9611669182777405, -1818.9573974609375],
        [1.0000001, 7e8],
        [0.9999999, 1e9],
        [1.5, 63],
        [1e-40, 0.5],
        [1e-40, -0.25],
        [-1e-40, 17],
      ],
    ] as [number, number][];
    const a = Float32Array.from(pairs, ([x]) => x);
    const b = Float32Array.from(pairs, ([, y]) => y);
    const output = device().place(new Float32Array(pairs.length), "f32");
    const input = (values: Float32Array) => ({ region: device().place(values, "f32"), strides: [1] });
    const problem = { dtype: "f32", kind: "pow", shape: [pairs.length], n: pairs.length } as const;
    device().run("binary", { ...problem, a: input(a), b: input(b), output });
    const results = await device().numbers(output, "f32");
    for (let i = 0; i < pairs.length; i++) {
      const exact = Math.fround(a[i]! ** b[i]!);
      const tolerance = 8 * spacing(exact, "f32");
      const label = `${a[i]}^${b[i]} = ${results[i]}, not ${exact}`;
      if (!Number.isFinite(exact) || tolerance <= 2 ** -143) assert.equal(results[i], exact, label);
      else assert.isTrue(Math.abs(results[i]! - exact) <= tolerance, label);
    }
  });

  for (const dtype of floatTypes)
    for (const { shape, a, b } of broadcasts)
      it(`broadcasts [${shape}] with strides [${a}] and [${b}] in ${dtype}`, async () => {
        const n = shape.reduce((product, extent) => product * extent, 1);
        const [placesA, placesB] = [stridedPlaces(shape, a), stridedPlaces(shape, b)];
        const valuesA = rounded(numbers(Math.max(...placesA) + 1, 3), dtype);
        const valuesB = rounded(numbers(Math.max(...placesB) + 1, 4), dtype);
        const expected = placesA.map((place, i) => valuesA[place]! - valuesB[placesB[i]!]!);
        const problem = { dtype, kind: "sub", shape, n } as const;
        for (const offset of [0, dtypeBytes[dtype]]) {
          const input = (values: Float32Array, strides: readonly number[]) => ({
            region: device().place(values, dtype, offset),
            strides,
          });
          const output = device().place(new Float32Array(n), dtype, offset);
          device().run("binary", { ...problem, a: input(valuesA, a), b: input(valuesB, b), output });
          assertClose(await device().numbers(output, dtype), expected, { dtype, kind: "sub" });
        }
        // Over the operand that is as large as the output.
        if (valuesA.length !== n) return;
        const region = device().place(valuesA, dtype);
        const second = { region: device().place(valuesB, dtype), strides: b };
        device().run("binary", { ...problem, a: { region, strides: a }, b: second, output: region });
        assertClose(await device().numbers(region, dtype), expected, { dtype, kind: "sub" });
      });

  for (const dtype of floatTypes)
    it(`may write over either operand or both, beside slices of the same memory, in ${dtype}`, async () => {
      const n = 37;
      const size = dtypeBytes[dtype];
      const values = rounded(numbers(2 * n + 9, 5), dtype);
      for (const [atA, atB, atOutput] of [
        [0, n, 0],
        [n, 0, 0],
        [0, 0, 0],
        [1, 1, 1],
        [0, n, 0],
        [3, n + 3, n + 3],
        [0, 9, 9 + n],
      ]) {
        const memory = device().upload(encode(values, dtype));
        const region = (element: number): BufferRegion => ({
          memory,
          byteOffset: element * size,
          byteLength: n * size,
        });
        device().run("binary", {
          ...{ dtype, kind: "sub", shape: [n], n, output: region(atOutput!) },
          a: { region: region(atA!), strides: [1] },
          b: { region: region(atB!), strides: [1] },
        });
        const expected = values.slice();
        for (let i = 0; i < n; i++) expected[atOutput! + i] = values[atA! + i]! - values[atB! + i]!;
        const results = await device().numbers(
          { memory, byteOffset: 0, byteLength: values.length * size },
          dtype,
        );
        assertClose(results, [...rounded(expected, dtype)], { dtype, kind: "sub" });
      }
    });
});
