// Tags: kernels, pure
import {
  type Axis,
  dtypeBytes,
  type FloatType,
  floatTypes,
  type NumberReduceKind,
  numberReduceKinds,
} from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { defaultLimits } from "#src/device/tiers.js";
import { planReduce } from "#src/kernels/reduce/select.js";
import { pattern, patterns, places, product } from "./shapes.js";
import { encode, lastRounding, noise, random, rounded, spacing, withDevice } from "./support.js";

/** A device without subgroups. */
const plain: DeviceFeatures = {
  ...{ shaderF16: false, subgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0, subgroupMatrices: [] },
  limits: defaultLimits,
};

const combine: Readonly<Record<NumberReduceKind, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  mean: (a, b) => a + b,
  prod: (a, b) => a * b,
  max: Math.max,
  min: Math.min,
  logSumExp: (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b))),
};

/** Close to 1 for products, so that they stay in range. */
function samples(kind: NumberReduceKind, dtype: FloatType, count: number): Float32Array {
  const next = random(count);
  const spread = kind === "prod" ? Math.min(0.9, 20 / Math.sqrt(count)) : 8;
  const centre = kind === "prod" ? 1 : -1;
  return rounded(
    Float32Array.from({ length: count }, () => centre + (next() - 0.5) * spread),
    dtype,
  );
}

describe("webgpu reduce", () => {
  const device = withDevice();

  for (const dtype of floatTypes)
    for (const { kept, reduced } of patterns) {
      const text = (axes: readonly Axis[]) =>
        axes.map(({ extent, stride }) => `${extent}:${stride}`).join(" ");
      it(`keeps [${text(kept)}] and reduces [${text(reduced)}] in ${dtype}`, async () => {
        const [outputCount, reducedCount] = [product(kept), product(reduced)];
        for (const kind of numberReduceKinds) {
          const values = samples(kind, dtype, outputCount * reducedCount);
          for (const offset of [0, dtypeBytes[dtype]]) {
            const input = device().place(values, dtype, offset);
            const before = noise(offset + outputCount * dtypeBytes[dtype] + 32);
            const memory = device().upload(before);
            const output = { memory, byteOffset: offset, byteLength: outputCount * dtypeBytes[dtype] };
            device().run("reduce", { dtype, kind, kept, reduced, outputCount, reducedCount, input, output });
            const results = await device().numbers(output, dtype);
            const after = await device().download(memory, 0, before.length);
            after.set(before.subarray(offset, offset + output.byteLength), offset);
            assert.deepEqual(after, before, "other bytes changed");
            const within = places(reduced);
            for (const [i, base] of places(kept).entries()) {
              let total = values[base]!;
              let size = Math.abs(total);
              for (const place of within.slice(1)) {
                total = combine[kind](total, values[base + place]!);
                size += Math.abs(values[base + place]!);
              }
              const exact = kind === "mean" ? total / reducedCount : total;
              if (results[i] === rounded([exact], dtype)[0]) continue;
              // Far fewer additions in a row than reducedCount.
              const steps = 40 + Math.sqrt(reducedCount);
              const bounds: Readonly<Record<NumberReduceKind, number>> = {
                ...{ sum: steps * 2 ** -23 * size, mean: (steps * 2 ** -23 * size) / reducedCount },
                ...{ prod: reducedCount * spacing(exact, "f32"), max: 0, min: 0 },
                // What is relative of a sum of exponentials, whose logarithm WGSL grants 2^-21.
                logSumExp: 2 ** -21 + (16 + steps) * 2 ** -23,
              };
              const rounding = Math.max(lastRounding(exact, dtype), spacing(exact, "f32"));
              const label = `${kind} ${i} is ${results[i]}, not ${exact}`;
              assert.isTrue(Math.abs(results[i]! - exact) <= bounds[kind] + rounding, label);
            }
          }
        }
      });
    }

  it("adds four million numbers accurately, in one output and in two", async () => {
    const n = 4_000_000;
    const tenth = Math.fround(0.1);
    const input = device().place(new Float32Array(n).fill(0.1), "f32");
    for (const { kept, reduced } of [
      pattern(-n),
      pattern(2, -n / 2),
      pattern(-n / 2, 2),
      pattern(-n / 32, 32),
    ]) {
      const [outputCount, reducedCount] = [product(kept), product(reduced)];
      const output = device().place(new Float32Array(outputCount), "f32");
      device().run("reduce", {
        dtype: "f32",
        kind: "sum",
        kept,
        reduced,
        outputCount,
        reducedCount,
        input,
        output,
      });
      for (const sum of await device().numbers(output, "f32"))
        assert.isAtMost(Math.abs(sum - reducedCount * tenth), 1e-6 * reducedCount * tenth);
    }
    device().driver.free(input.memory);
  });

  it("gives the same bits every time", async () => {
    const values = samples("sum", "f32", 50_000);
    const input = device().place(values, "f32");
    const results = [];
    for (let i = 0; i < 3; i++) {
      const output = device().place([0], "f32");
      const shape = { ...pattern(-50_000), outputCount: 1, reducedCount: 50_000 };
      device().run("reduce", { dtype: "f32", kind: "sum", ...shape, input, output });
      results.push(encode(await device().numbers(output, "f32"), "f32").join());
    }
    assert.equal(new Set(results).size, 1);
  });

  it("plans several segments for few outputs of long sums, and one for many", () => {
    const plan = (outputs: number, reduced: number) =>
      planReduce(
        {
          ...{ dtype: "f32", ...pattern(outputs, -reduced), outputCount: outputs, reducedCount: reduced },
          byteOffset: 0,
        },
        plain,
      );
    assert.isAbove(plan(1, 1 << 24).segments, 100);
    assert.equal(plan(4096, 4096).segments, 1);
    assert.equal(plan(1, 100).segments, 1);
    for (const [outputs, reduced] of [
      [1, 1e6],
      [3, 777_776],
      [1, 17],
    ] as const) {
      const { segments, segmentLength, vector } = plan(outputs, reduced);
      assert.isAtLeast(segments * segmentLength * vector, reduced);
      assert.isBelow((segments - 1) * segmentLength * vector, reduced);
    }
  });
});
