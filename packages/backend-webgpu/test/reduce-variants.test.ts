// Tags: kernels, pure
import type { FloatType } from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { defaultLimits } from "#src/device/tiers.js";
import { planReduce } from "#src/kernels/reduce/select.js";
import { observeChoices } from "#src/kernels/variant.js";
import { random, TestDevice } from "./support.js";

const plain: DeviceFeatures = {
  ...{ shaderF16: false, subgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0, subgroupMatrices: [] },
  limits: defaultLimits,
};

const grouped = (size: number): DeviceFeatures => ({
  ...plain,
  subgroups: true,
  subgroupMinSize: size,
  subgroupMaxSize: size,
});

/** Rows of a matrix, each reduced. */
function rows(count: number, length: number, dtype: FloatType = "f32", byteOffset = 0) {
  return {
    ...{ dtype, outputCount: count, reducedCount: length, byteOffset },
    kept: [{ extent: count, stride: length }],
    reduced: [{ extent: length, stride: 1 }],
  };
}

/** Columns of a matrix, each reduced. */
function columns(length: number, count: number, dtype: FloatType = "f32", byteOffset = 0) {
  return {
    ...{ dtype, outputCount: count, reducedCount: length, byteOffset },
    kept: [{ extent: count, stride: 1 }],
    reduced: [{ extent: length, stride: count }],
  };
}

describe("webgpu reduce variants", () => {
  it("are subgroups for many narrow rows where the device has them, and workgroups elsewhere", () => {
    const lanes = (shape: Parameters<typeof planReduce>[0], features = grouped(32)) =>
      planReduce(shape, features).lanes;
    assert.equal(lanes(rows(4096, 1001)), "subgroup");
    assert.equal(lanes(rows(4096, 1001), plain), 16);
    assert.equal(lanes(rows(4096, 192, "f32", 4)), "subgroup", "rows that start between vectors");
    assert.equal(lanes(rows(16384, 192)), 4, "wide");
    assert.equal(lanes(rows(16384, 191)), 4, "short");
    assert.equal(lanes(rows(65_536, 512)), 4, "128 loads of f32");
    assert.equal(lanes(rows(65_536, 1024, "f16")), 16, "128 loads of f16");
    assert.equal(lanes(rows(2048, 1001)), "subgroup");
    assert.equal(lanes(rows(2047, 1001)), 64, "few outputs: more share each");
    assert.equal(lanes(columns(1001, 4095)), 16, "columns");
  });

  it("are subgroups wherever these have something to do, where a GPU is emulated", () => {
    const features = { ...grouped(4), family: { name: "some software", isEmulated: true } };
    const lanes = (shape: Parameters<typeof planReduce>[0]) => planReduce(shape, features).lanes;
    assert.equal(lanes(rows(16, 5)), "subgroup");
    assert.equal(lanes(rows(15, 401)), 256, "few outputs");
    assert.equal(lanes(rows(4096, 4, "f32", 4)), 1, "nothing to share");
    assert.equal(lanes(rows(4096, 16)), 1, "nothing to share, wide");
    assert.equal(lanes(rows(4096, 20)), "subgroup", "wide");
    assert.equal(lanes(columns(1001, 4096)), 16, "columns");
    assert.equal(planReduce(rows(4096, 20), { ...features, subgroups: false }).lanes, 4);
  });

  it("say why they are chosen", () => {
    const heard: string[] = [];
    const family = { name: "some software", isEmulated: true };
    for (const [count, features] of [
      [4096, grouped(32)],
      [4096, { ...plain }],
      [64, { ...grouped(4), family }],
    ] as const) {
      observeChoices(features, ({ operation, variant, reason }) =>
        heard.push(`${operation} ${variant}: ${reason()}`),
      );
      planReduce(rows(count, 1001), features);
    }
    assert.deepEqual(heard, [
      "reduce subgroups: preferred for the shape",
      "reduce workgroups: preferred for the shape; subgroups needs more than the device has",
      "reduce subgroups: preferred for the shape on some software",
    ]);
  });

  it("cover all outputs and all loads, with subgroups of any size", () => {
    for (const size of [0, 4, 8, 16, 32, 64, 128])
      for (const [count, length] of [
        [2048, 193],
        [5001, 1023],
        [70_001, 4099],
      ] as const) {
        const features = grouped(size);
        const { lanes, slots, outputBlocks, segments, segmentLength } = planReduce(
          rows(count, length),
          features,
        );
        assert.equal(lanes, "subgroup");
        assert.isTrue(Number.isInteger(slots));
        assert.isAtLeast(slots * outputBlocks, count);
        assert.isBelow(slots * (outputBlocks - 1), count);
        assert.isAtLeast(segments * segmentLength, length);
      }
  });

  it("read four columns at once where these are whole and aligned", () => {
    const plan = (...shape: Parameters<typeof columns>) => {
      const { wide, vector, outputs } = planReduce(columns(...shape), plain);
      return { wide, vector, outputs };
    };
    assert.deepEqual(plan(64, 1024), { wide: true, vector: 4, outputs: 256 });
    assert.deepEqual(plan(64, 1024, "f16", 8), { wide: true, vector: 4, outputs: 256 });
    assert.deepEqual(plan(64, 1024, "f32", 8), { wide: false, vector: 1, outputs: 1024 });
    assert.deepEqual(plan(64, 1024, "f16", 4), { wide: false, vector: 1, outputs: 1024 });
    assert.deepEqual(plan(64, 1022), { wide: false, vector: 1, outputs: 1022 });
  });

  it("share columns that are few or long, and cut them into as many segments as a large device does at a time", () => {
    const plan = (...shape: Parameters<typeof columns>) => {
      const { lanes, segments, outputBlocks } = planReduce(columns(...shape), plain);
      return `${lanes} ${segments}x${outputBlocks}`;
    };
    assert.equal(plan(16_384, 4096), "16 9x64");
    assert.equal(plan(2 ** 20, 64), "16 528x1");
    assert.equal(plan(1024, 65_536), "16 1x1024");
    assert.equal(plan(64, 2 ** 20), "4 1x4096");
    assert.equal(plan(33, 4096), "16 1x64");
  });

  it("leave an invocation several loads, unless few would run at all", () => {
    for (const length of [64, 256, 516, 1024, 1028, 4096, 4100, 16384]) {
      const plan = planReduce(rows(2 ** 28 / length, length), plain);
      assert.isAtLeast(plan.length / (plan.lanes as number), 4);
    }
    assert.equal(planReduce(rows(1, 1024), plain).lanes, 64);
    assert.isAbove(planReduce(rows(1, 2 ** 28), plain).segments, 2000);
  });

  for (const tier of ["baseline", "subgroups"] as const)
    it(`give right results, the same each time, in the tier ${tier}`, async () => {
      const heard: string[] = [];
      const device = await TestDevice.open({ tier, log: (line) => heard.push(line) });
      const [count, length] = [2050, 211];
      const next = random(7);
      const values = Float32Array.from({ length: count * length + 1 }, () => next() - 0.5);
      const input = device.place(values, "f32");
      const results: Float32Array[] = [];
      for (let i = 0; i < 3; i++) {
        const output = device.place(new Float32Array(count), "f32");
        device.run("reduce", { kind: "sum", ...rows(count, length), input, output });
        results.push(await device.numbers(output, "f32"));
        device.driver.free(output.memory);
      }
      for (const [i, sum] of results[0]!.entries()) {
        let exact = 0;
        for (let j = 0; j < length; j++) exact += values[i * length + j]!;
        assert.closeTo(sum, exact, 1e-5);
      }
      assert.deepEqual(results[1], results[0]);
      assert.deepEqual(results[2], results[0]);
      const variant = tier === "baseline" ? "workgroups" : "subgroups";
      assert.isTrue(
        heard.some((line) => line.includes("reduce") && line.includes(variant)),
        heard.join("\n"),
      );
      device.driver.free(input.memory);
      await device.close();
    });
});
