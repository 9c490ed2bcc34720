// Tags: kernels, pure
import { dtypeBytes, type FloatType, type IntegerType, type SortProblem } from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { sort } from "#src/kernels/sort/index.js";
import { mostCompared, planSort, roundsOf } from "#src/kernels/sort/select.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { asLargeGpu } from "./products.js";
import { random, type TestDevice, withDevice } from "./support.js";

type Extents = readonly [outer: number, length: number, inner: number];
type Type = FloatType | IntegerType;

interface Case {
  readonly extents: Extents;
  /** Default: all of the axis. */
  readonly count?: number;
  readonly dtype?: Type;
  readonly descending?: boolean;
  /** Default: both. */
  readonly without?: "values" | "indices";
}

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Many equal ones, and all kinds of numbers. */
function elementsOf(dtype: Type, count: number): number[] {
  const next = random(count);
  const special = {
    ...{
      f32: [0, -0, nan, infinity, -infinity, 1e-40, -1e-40, 3e38],
      f16: [0, -0, nan, infinity, -infinity, 6e-8],
    },
    ...{ i32: [0, -1, 2 ** 31 - 1, -(2 ** 31)], u32: [0, 2 ** 32 - 1, 2 ** 31] },
  }[dtype];
  const least = dtype === "u32" ? 0 : -1000;
  return Array.from({ length: count }, () =>
    next() < 0.2 ? special[Math.floor(next() * special.length)]! : Math.floor(least + next() * 2000),
  );
}

/** Sorted in JavaScript, by the rules of the operation. */
function reference(x: ArrayLike<number>, { extents, count = extents[1], descending }: Case) {
  const [outer, length, inner] = extents;
  const [values, indices] = [
    new Array<number>(outer * count * inner),
    new Array<number>(outer * count * inner),
  ];
  for (let row = 0; row < outer * inner; row++) {
    const [o, i] = [Math.floor(row / inner), row % inner];
    const at = (j: number) => x[(o * length + j) * inner + i]!;
    const places = Array.from({ length }, (_, j) => j).sort((a, b) => {
      const [p, q] = [at(a), at(b)];
      if (Number.isNaN(p) || Number.isNaN(q)) return Number(Number.isNaN(p)) - Number(Number.isNaN(q));
      return p === q ? 0 : p < q === (descending ?? false) ? 1 : -1;
    });
    for (let j = 0; j < count; j++) {
      values[(o * count + j) * inner + i] = at(places[j]!);
      indices[(o * count + j) * inner + i] = places[j]!;
    }
  }
  return { values, indices };
}

async function check(
  device: TestDevice,
  value: Case,
  run: (problem: SortProblem<DeviceMemory>) => void,
): Promise<void> {
  const { extents, dtype = "f32", descending = false, without } = value;
  const [outer, length, inner] = extents;
  const { count = length } = value;
  // Nothing begins with a whole word of halves.
  const input = device.place(elementsOf(dtype, outer * length * inner), dtype, dtypeBytes[dtype]);
  const results = new Float32Array(outer * count * inner);
  const values = without === "values" ? undefined : device.place(results, dtype, dtypeBytes[dtype]);
  const indices = without === "indices" ? undefined : device.place(results, "i32", 8);
  run({ dtype, outer, length, inner, descending, count, input, values, indices });
  const expected = reference(await device.numbers(input, dtype), value);
  const label = JSON.stringify(value);
  if (values !== undefined)
    assert.deepEqual([...(await device.numbers(values, dtype))], expected.values, `values of ${label}`);
  if (indices !== undefined)
    assert.deepEqual([...(await device.numbers(indices, "i32"))], expected.indices, `indices of ${label}`);
  for (const region of [input, values, indices]) if (region !== undefined) device.driver.free(region.memory);
}

/** Where GPUs stop to sort rows whole; software that compiles slowly does at a quarter of it. */
const largestTile = 4096;

/** Around the thresholds of `planSort`. */
const cases: readonly Case[] = [
  { extents: [5, 1, 1] },
  { extents: [70, mostCompared, 1], descending: true },
  { extents: [70, mostCompared, 1], count: 3, dtype: "f16" },
  { extents: [3, mostCompared + 1, 70], dtype: "f16" },
  { extents: [40, mostCompared + 1, 1], dtype: "i32", descending: true },
  { extents: [4, 40, 30], count: 7, dtype: "u32", descending: true },
  { extents: [3, 1024, 1] },
  { extents: [2, 1025, 1], dtype: "u32" },
  { extents: [2, 300, 5], dtype: "f16", descending: true },
  { extents: [1, 700, 9], count: 1 },
  { extents: [2, largestTile, 1], dtype: "i32" },
  { extents: [2, largestTile + 1, 1], count: largestTile / 4 },
  { extents: [2, largestTile + 1, 1], count: largestTile / 4 + 1, descending: true },
  { extents: [1, 5 * largestTile, 1], count: largestTile / 4, dtype: "u32", descending: true },
  { extents: [3, 2 * largestTile + 7, 1], dtype: "f16" },
  { extents: [1, largestTile + 9, 3], dtype: "i32" },
  { extents: [1, largestTile + 9, 3], count: 2, without: "values" },
  { extents: [2, 3 * largestTile, 1], without: "indices", dtype: "u32" },
  { extents: [2, 3 * largestTile, 1], without: "values", dtype: "f16", descending: true },
];

describe("webgpu sort", () => {
  const device = withDevice();

  async function checkAll(as: (features: DeviceFeatures) => DeviceFeatures): Promise<void> {
    for (const value of cases)
      await check(device(), value, (problem) =>
        device().driver.withContext((context) =>
          sort.run(
            {
              features: as(context.features),
              dispatch: (...args) => context.dispatch(...args),
              scratch: (bytes) => context.scratch(bytes),
              copy: (...args) => context.copy(...args),
              fill: (...args) => context.fill(...args),
            },
            problem,
          ),
        ),
      );
  }

  it("keeps to the order on both sides of every threshold", () => checkAll((features) => features));

  it("does so with loops written out, as for a GPU", () =>
    // In tiles of 4096 these are the largest texts, each of which takes some software a minute to compile.
    checkAll((features) =>
      features.family?.compilesSlowly
        ? { ...features, family: { ...features.family, isEmulated: false } }
        : asLargeGpu(features),
    ));
});

for (const [name, limits] of [
  ["of bindings", { maxStorageBufferBindingSize: 20_000 }],
  ["of workgroups along an axis", { maxComputeWorkgroupsPerDimension: 29 }],
] as const)
  describe(`webgpu sort within limits ${name}`, () => {
    const device = withDevice({ limits });

    it("is cut, or minds workgroups too many", async () => {
      for (const value of [
        { extents: [90, 60, 1], descending: true },
        { extents: [1, 17_000, 1], dtype: "f16" },
        { extents: [1, 17_000, 1], count: 5000, descending: true },
        { extents: [2, 9001, 1], count: 3, dtype: "u32" },
        { extents: [1, 60, 200], dtype: "f16" },
        { extents: [1, 5001, 3], without: "indices" },
        { extents: [50, 1030, 1], count: 20, dtype: "i32", without: "values" },
      ] satisfies readonly Case[])
        await check(device(), value, (problem) => device().run("sort", problem));
    });
  });

describe("webgpu sort plans", () => {
  const plan = (...[outer, length, inner, count = length]: [...Extents, number?]) =>
    planSort({ outer, length, inner, count }, 16);

  it("sort rows whole as long as a workgroup holds them", () => {
    assert.deepEqual(plan(2 ** 20, 16, 1), { form: "lines", method: "compare", items: 4, tileLines: 64 });
    assert.deepEqual(plan(4096, 4096, 1), { form: "lines", method: "digits", items: 16, tileLines: 1 });
    assert.deepEqual(plan(4096, 1024, 1), { form: "lines", method: "digits", items: 16, tileLines: 4 });
    assert.deepEqual(plan(100, 1024, 1), { form: "lines", method: "digits", items: 4, tileLines: 1 });
  });

  it("sort longer ones by digits unless a few of their elements are wanted", () => {
    assert.deepEqual(plan(1, 2 ** 24, 1), { form: "digits" });
    assert.deepEqual(plan(64, 131_072, 1, 40), { form: "parts" });
  });

  it("move columns together if a workgroup has few of them", () => {
    assert.deepEqual(plan(1, 4096, 4096), { form: "rows" });
    assert.deepEqual(plan(1, 2 ** 20, 3, 1), { form: "rows" });
    assert.equal(plan(64, 128, 64).form, "lines");
    assert.equal(plan(640, 1000, 2).form, "lines");
  });

  it("take a round for four bits of the keys, and of the lines of a tile", () => {
    assert.equal(roundsOf(32, 1), 8);
    assert.equal(roundsOf(16, 15), 5);
    assert.equal(roundsOf(32, 16), 10);
  });
});
