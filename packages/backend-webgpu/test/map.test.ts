// Tags: kernels, pure
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, laws } from "@backplane/conformance";
import type { MapElementType, MapStep } from "@backplane/core";
import { assert } from "chai";
import { planMap } from "#src/kernels/map/select.js";
import { fakeMemory } from "./fake-device.js";

const onMap = laws.filter(({ topic }) => topic === "map");
const fixed = onMap.filter(({ name }) => !name.startsWith("random") && !name.startsWith("integers"));

// Expressions with more operands are computed in parts. Every device has 8, but its kernels may be told of fewer.
describeBackend(
  {
    name: "WebGPU with four buffers for each kernel, and grids of two dimensions",
    create: () =>
      createWebGpuBackend({
        limits: { maxStorageBuffersPerShaderStage: 4, maxComputeWorkgroupsPerDimension: 30 },
      }),
    options: { laws: fixed, mode: "quick" },
  },
  globalThis,
);

describeBackend(
  {
    name: "WebGPU with bindings of 4,200 bytes and eight buffers for each kernel",
    create: () =>
      createWebGpuBackend({
        limits: { maxStorageBuffersPerShaderStage: 8, maxStorageBufferBindingSize: 4200 },
      }),
    options: { laws: fixed, mode: "quick" },
  },
  globalThis,
);

describe("webgpu map plans", () => {
  const sum: readonly MapStep[] = [
    { step: "input", type: "f32", input: 0 },
    { step: "input", type: "f32", input: 1 },
    { step: "binary", type: "f32", of: "f32", kind: "add", a: 0, b: 1 },
  ];
  const bytes = { f32: 4, f16: 2, i32: 4, u32: 4, u8: 1 } as const;
  let memories = 0;
  const region = (dtype: MapElementType, count: number, first = 0) => ({
    memory: fakeMemory(2 ** 20, ++memories),
    byteOffset: first * bytes[dtype],
    byteLength: count * bytes[dtype],
  });

  it("take vectors wherever all regions and rows allow it", () => {
    const plan = (
      dtype: MapElementType,
      shape: readonly number[],
      strides: readonly (readonly number[])[],
      first = [0, 0, 0],
    ) => {
      const n = shape.reduce((a, b) => a * b, 1);
      const counts = strides.map((list) => shape.reduce((a, b, i) => (list[i] === 0 ? a : a * b), 1));
      const inputs = strides.map((list, k) => ({
        ...{ dtype, strides: list, region: region(dtype, counts[k]!, first[k]) },
      }));
      const made = planMap({ shape, n, inputs, steps: sum }, [{ dtype, region: region(dtype, n, first[2]) }]);
      return [made.wide, ...made.sources].join(" ");
    };
    assert.equal(plan("f32", [77], [[1], [1]]), "4 contiguous contiguous");
    assert.equal(plan("f16", [77], [[1], [1]]), "8 contiguous contiguous");
    assert.equal(plan("f16", [77], [[1], [1]], [4, 8, 4]), "4 contiguous contiguous");
    assert.equal(plan("f16", [77], [[1], [1]], [2, 8, 4]), "0 contiguous contiguous");
    assert.equal(plan("f32", [77], [[1], [0]], [0, 3, 0]), "4 contiguous single");
    assert.equal(plan("f32", [77], [[1], [1]], [0, 1, 0]), "0 contiguous contiguous");
    assert.equal(
      plan(
        "f32",
        [5, 8],
        [
          [8, 1],
          [0, 1],
        ],
      ),
      "4 contiguous strided",
    );
    assert.equal(
      plan(
        "f32",
        [5, 8],
        [
          [8, 1],
          [1, 0],
        ],
        [0, 3, 0],
      ),
      "4 contiguous repeated",
    );
    assert.equal(
      plan(
        "f32",
        [5, 9],
        [
          [9, 1],
          [1, 0],
        ],
      ),
      "0 contiguous strided",
    );
    assert.equal(
      plan(
        "f16",
        [5, 12],
        [
          [12, 1],
          [0, 1],
        ],
      ),
      "4 contiguous strided",
    );
  });

  it("read an input from the output that lies over it", () => {
    const shared = region("f32", 12);
    const inputs = [region("f32", 12), shared].map((place) => ({
      dtype: "f32" as const,
      strides: [1],
      region: place,
    }));
    const outputs = [region("f32", 12), shared].map((place) => ({ dtype: "f32" as const, region: place }));
    assert.deepEqual(planMap({ shape: [12], n: 12, inputs, steps: sum }, outputs).sources, ["contiguous", 1]);
  });
});
