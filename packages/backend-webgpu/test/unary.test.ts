// Tags: kernels, pure
import { unaryFunctions } from "@backplane/conformance/functions";
import {
  dtypeBytes,
  type FloatType,
  type FloatUnaryKind,
  floatTypes,
  floatUnaryKinds,
} from "@backplane/core";
import { assert } from "chai";
import { lastRounding, noise, random, rounded, spacing, withDevice } from "./support.js";

/** Allowed errors in units in the last place of f32, where they are not 0. */
const units: Partial<Record<FloatUnaryKind, number>> = {
  ...{ sigmoid: 4, tanh: 4, exp: 4, log: 4, sqrt: 4, rsqrt: 4, reciprocal: 2.5, sin: 4, cos: 4 },
  ...{ erf: 4, expm1: 4, gelu: 8, geluTanh: 6, silu: 6, softplus: 4 },
  ...{ square: 1, exp2: 4, log1p: 4, log2: 4, tan: 6, asin: 4, acos: 4, atan: 4 },
  ...{ sinh: 4, cosh: 4, asinh: 4, acosh: 4, atanh: 4 },
};

/** Besides, what flushing may take from a result, and only from one below the normal numbers. */
function slack(kind: FloatUnaryKind, x: number): number {
  const exact = Math.abs(unaryFunctions[kind](x));
  return exact < 2 ** -126 ? exact : 0;
}

function inDomain(kind: FloatUnaryKind, x: number): boolean {
  if (Number.isNaN(unaryFunctions[kind](x))) return false;
  if (["log", "log2", "rsqrt"].includes(kind)) return x > 0;
  if (kind === "sqrt") return x >= 0;
  if (kind === "reciprocal") return x !== 0 && Math.abs(x) < 2 ** 126;
  return true;
}

function samples(dtype: FloatType): Float32Array {
  const next = random(3);
  const powers = Array.from({ length: 45 * 16 }, (_, i) => 2 ** ((i % 45) - 30) * (1 + next()));
  const spread = Array.from({ length: 1500 }, () => next() * 220 - 110);
  const halves = [0, 0.5, 1.5, 2.5, 3.5, 1e-6, 1e-4, 88.5, 88.7, 87.3, 1e4, 65504];
  // Close to multiples of pi / 2; the last is the closest of all numbers of f32 to one.
  const turns = Array.from({ length: 2000 }, (_, i) => (Math.PI / 2) * (i < 1000 ? i : i * i));
  const large = [1e9, 1e20, 1e30, 3e38, 2 ** 127, 16367173 * 2 ** 72];
  // Where a factor of the result underflows, and the result does not.
  const small = [1.2e-38, 1e-37, 1e-29, 9.5, 12.5, 13.09, 86.9, 87.2, 91.16];
  // Where gelu and geluTanh fall to 0: the steepest tails of all.
  const tails = Array.from({ length: 4000 }, () => next() * 15);
  const values = [...powers, ...spread, ...tails, ...halves, ...turns, ...large, ...small];
  return rounded([...values, ...values.map((x) => -x)], dtype);
}

describe("webgpu unary", () => {
  const device = withDevice();

  for (const dtype of floatTypes)
    for (const kind of floatUnaryKinds)
      it(`${kind} in ${dtype} is accurate everywhere`, async () => {
        const xs = samples(dtype).filter((x) => Number.isFinite(x) && inDomain(kind, x));
        const input = device().place(xs, dtype);
        const output = device().place(new Float32Array(xs.length), dtype);
        device().run("unary", { dtype, kind, n: xs.length, input, output });
        const results = await device().numbers(output, dtype);
        for (const [i, x] of xs.entries()) {
          const exact = unaryFunctions[kind](x);
          if (Math.abs(Math.fround(exact)) === Number.POSITIVE_INFINITY) {
            assert.equal(results[i], Math.fround(exact), `${kind}(${x})`);
            continue;
          }
          const single = (units[kind] ?? 0) * spacing(exact, "f32") + (units[kind] ? slack(kind, x) : 0);
          const bound = single + lastRounding(exact, dtype);
          const nearest = rounded([exact], dtype)[0]!;
          const expected = Number.isFinite(nearest) ? exact : nearest;
          if (expected === results[i]) continue;
          assert.isTrue(
            Math.abs(results[i]! - expected) <= bound,
            `${kind}(${x}) = ${results[i]}, not ${exact}`,
          );
        }
      });

  for (const dtype of floatTypes) {
    const size = dtypeBytes[dtype];
    for (const place of ["apart", "in place", "beside the input"] as const)
      it(`writes exactly its elements in ${dtype}, ${place}, at any offset`, async () => {
        for (const n of [1, 2, 3, 5, 8, 17, 200])
          for (const [first, second] of [
            [0, 0],
            [size, 0],
            [0, size],
            [16, 32],
            [3 * size, 5 * size],
          ] as const) {
            const before = noise(2048, n);
            // The upper bytes of f16 and f32 numbers alike, so that all are finite and none is subnormal.
            for (let i = 1; i < before.length; i += 2) before[i] = 0x20 | (before[i]! & 0x1f);
            const memory = device().upload(before);
            const byteLength = n * size;
            const input = { memory, byteOffset: first, byteLength };
            const output = {
              memory: place === "apart" ? device().upload(before) : memory,
              byteOffset: place === "in place" ? first : second + (place === "beside the input" ? 1216 : 0),
              byteLength,
            };
            device().run("unary", { dtype, kind: "neg", n, input, output });
            const expected = before.slice();
            for (let i = 0; i < byteLength; i++) expected[output.byteOffset + i] = before[first + i]!;
            for (let i = size - 1; i < byteLength; i += size) expected[output.byteOffset + i]! ^= 0x80;
            const label = `${n} elements from ${first} to ${output.byteOffset}`;
            assert.deepEqual(await device().download(output.memory, 0, before.length), expected, label);
          }
      });
  }

  it("takes more elements than 65,535 workgroups of one row hold", async () => {
    const { driver } = device();
    const n = 65_536 * 256 + 77;
    const memory = driver.alloc(4 * n + 4, false);
    const region = { memory, byteOffset: 4, byteLength: 4 * n };
    driver.fill(region, 0x40000000); // 2.0, at an offset that allows no vectors
    device().run("unary", { dtype: "f32", kind: "neg", n, input: region, output: region });
    for (const at of [0, 65_535 * 256 - 4, 4 * n - 400])
      for (const value of new Float32Array((await device().download(memory, 4 + at - (at % 4), 400)).buffer))
        assert.equal(value, -2);
    driver.free(memory);
  });
});
