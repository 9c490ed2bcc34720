// Tags: kernels, pure
import { binaryFunctions } from "@backplane/conformance/functions";
import {
  type ArithmeticKind,
  arithmeticKinds,
  type BinaryArguments,
  type DeviceHandle,
  type FloatType,
  float16FromBits,
  float16ToBits,
} from "@backplane/core";
import { expect } from "chai";
import { binary } from "#src/kernels/binary/binary.js";
import { asStored } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers, specialNumbers, ulpDistance } from "./numbers.js";
import { guardedOutput, resolveProblem, runOperation, uploadElements } from "./problems.js";
import { broadcast, broadcasts } from "./shapes.js";

const handle = 1 as DeviceHandle;

/** The largest error in ULP; all others are correctly rounded. */
const bounds: Readonly<Partial<Record<ArithmeticKind, number>>> = { pow: 0.51, atan2: 2 };
const bound = (kind: ArithmeticKind): number => bounds[kind] ?? 0.5;

describeEitherWay("binary kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(binary.kernels, options);
  });

  const run = (
    dtype: FloatType,
    args: Omit<BinaryArguments, "output" | "dtype">,
    a: Float32Array | undefined,
    b: Float32Array | undefined,
    count: number,
  ): Float32Array => {
    const output = guardedOutput(bench, dtype, count);
    const regions = {
      output: output.region,
      ...(a && { a: uploadElements(bench, dtype, a) }),
      ...(b && { b: uploadElements(bench, dtype, b) }),
    };
    runOperation(bench, binary, resolveProblem("binary", { ...args, dtype, output: handle }, regions));
    return output.read();
  };

  for (const kind of arithmeticKinds) {
    it(`${kind} is within ${bound(kind)} ULP for all pairs of special values and random ones`, () => {
      const random = randomNumbers(2);
      const pairs: [number, number][] = specialNumbers.flatMap((a) =>
        [...specialNumbers, 3, -3, 2, 0.25, -7].map((b) => [a, b] as [number, number]),
      );
      for (let i = 0; i < 20000; i++) {
        const a = Math.fround(2 ** (random() * 60 - 30)) * (random() < 0.1 ? -1 : 1);
        // The result of pow stays between 2^-150 and 2^130.
        const exponent = (random() * 280 - 150) / Math.log2(Math.abs(a));
        pairs.push([a, random() < 0.2 ? Math.round(random() * 20 - 10) : exponent]);
        pairs.push([1 + (random() - 0.5) * 0.01, (random() - 0.5) * 16000]);
      }
      const a = Float32Array.from(pairs, (pair) => pair[0]);
      const b = Float32Array.from(pairs, (pair) => pair[1]);
      const output = run("f32", { kind, n: a.length, a: handle, b: handle }, a, b, a.length);
      output.forEach((got, i) => {
        const expected = binaryFunctions[kind](a[i]!, b[i]!);
        const label = `${kind}(${a[i]}, ${b[i]}) = ${got}, not ${expected}`;
        expect(ulpDistance(got, expected), label).to.be.at.most(bound(kind));
        if (expected === 0) expect(Object.is(got, expected), label).to.equal(true);
      });
    });
  }

  it("pow of two numbers does not depend on the numbers beside them", () => {
    const random = randomNumbers(12);
    const a = Float32Array.from({ length: 1024 }, () => random() * 12);
    const b = Float32Array.from({ length: 1024 }, () => random() * 24 - 12);
    const rare = [-2, 0, 1e-40, Number.NaN, -0, Number.POSITIVE_INFINITY, -0.5];
    const mixed = Float32Array.from({ length: 2048 }, (_, i) =>
      i % 2 === 0 ? a[i / 2]! : rare[((i - 1) / 2) % rare.length]!,
    );
    const twice = Float32Array.from({ length: 2048 }, (_, i) => b[i >> 1]!);
    const powers = (a: Float32Array, b: Float32Array): Float32Array =>
      run("f32", { kind: "pow", n: a.length, a: handle, b: handle }, a, b, a.length);
    const beside = powers(mixed, twice).filter((_, i) => i % 2 === 0);
    expect(Buffer.compare(Buffer.from(beside.buffer), Buffer.from(powers(a, b).buffer))).to.equal(0);
  });

  it("computes in f32 and rounds f16 once", () => {
    const random = randomNumbers(4);
    const n = 10007;
    const a = asStored(
      "f16",
      Float32Array.from({ length: n }, () => random() * 20 - 10),
    );
    const b = asStored(
      "f16",
      Float32Array.from({ length: n }, () => random() * 20 - 10),
    );
    for (const kind of ["add", "mul", "div", "max"] as const) {
      const got = run("f16", { kind, n, a: handle, b: handle }, a, b, n);
      got.forEach((value, i) => {
        const exact = Math.fround(binaryFunctions[kind](a[i]!, b[i]!));
        expect(value, `${kind}(${a[i]}, ${b[i]})`).to.equal(float16FromBits(float16ToBits(exact)));
      });
    }
  });

  it("takes a scalar on either side, in f32 also for f16 data", () => {
    const random = randomNumbers(6);
    for (const dtype of ["f32", "f16"] as const)
      for (const n of [1, 5, 64, 8191, 8193, 20000]) {
        const data = asStored(
          dtype,
          Float32Array.from({ length: n }, () => random() * 8 - 4),
        );
        const scalar = { scalar: 1.2345678 };
        const left = run(dtype, { kind: "sub", n, a: scalar, b: handle }, undefined, data, n);
        const right = run(dtype, { kind: "sub", n, a: handle, b: scalar }, data, undefined, n);
        data.forEach((x, i) => {
          const difference = Math.fround(Math.fround(1.2345678) - x);
          const expected = asStored(dtype, Float32Array.of(difference))[0]!;
          expect(left[i]).to.equal(expected);
          expect(right[i]).to.equal(-expected);
        });
      }
  });

  for (const { a: shapeA, b: shapeB } of broadcasts) {
    it(`broadcasts [${shapeA}] with [${shapeB}]`, () => {
      const { a, b, output, pairs } = broadcast(shapeA, shapeB);
      const values = (count: number, from: number): Float32Array =>
        Float32Array.from({ length: count }, (_, i) => (i % 1000) + from);
      const [dataA, dataB] = [values(a, 0), values(b, 1 / 4)];
      for (const dtype of ["f32", "f16"] as const) {
        const [storedA, storedB] = [asStored(dtype, dataA), asStored(dtype, dataB)];
        const got = run(dtype, { kind: "sub", shapeA, shapeB, a: handle, b: handle }, dataA, dataB, output);
        for (const [i, [x, y]] of pairs.entries()) {
          const expected = asStored(dtype, Float32Array.of(storedA[x]! - storedB[y]!))[0]!;
          if (got[i] !== expected) expect.fail(`${dtype} element ${i}: ${got[i]}, not ${expected}`);
        }
      }
    });
  }

  it("writes over an input exactly", () => {
    for (const which of ["a", "b"] as const)
      for (let n = 1; n < 40; n++) {
        const data = { a: Float32Array.from({ length: n }, (_, i) => i + 1), b: new Float32Array(n).fill(3) };
        const a = uploadElements(bench, "f32", data.a);
        const b = uploadElements(bench, "f32", data.b);
        const output = which === "a" ? a : b;
        const problem = resolveProblem(
          "binary",
          { kind: "sub", n, a: handle, b: handle, output: handle },
          { a, b, output },
        );
        runOperation(bench, binary, problem);
        expect([...bench.float32(output)]).to.deep.equal(Array.from({ length: n }, (_, i) => i - 2));
      }
  });
});
