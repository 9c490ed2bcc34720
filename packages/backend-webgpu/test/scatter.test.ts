// Tags: kernels, pure
import {
  type ComputeBackend,
  createBackend,
  type DeviceHandle,
  dtypeBytes,
  type FloatType,
  type ScatterKind,
  type ScatterProblem,
  type ScatterType,
  scatterTypes,
} from "@backplane/core";
import { assert } from "chai";
import { scatter } from "#src/kernels/scatter/index.js";
import { planScatter, rangesOfKeys, shareOfRow, tilesFor } from "#src/kernels/scatter/select.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { asLargeGpu, withProducts } from "./products.js";
import { driverOf, encode, findDawn, noise, random } from "./support.js";

type Extents = readonly [outer: number, length: number, count: number, inner: number];

interface ScatterCall {
  readonly dtype: ScatterType;
  readonly kind: ScatterKind;
  readonly extents: Extents;
  /** Elements in front of the updates and of the output. */
  readonly before?: readonly [updates: number, output: number];
  readonly perOuter?: boolean;
  readonly perInner?: boolean;
  /** Indices are below this. Default: the length. */
  readonly spread?: number;
}

/** A quarter of them out of range. */
function indicesFor(count: number, length: number, spread: number): Int32Array {
  const next = random(count + length);
  const outside = [-1, length, -length, -(2 ** 31), 2 ** 31 - 1];
  return Int32Array.from({ length: count }, () =>
    next() < 0.25 ? outside[Math.floor(5 * next())]! : Math.floor(next() * Math.min(spread, length)),
  );
}

const combine: Readonly<Record<ScatterKind, (x: number, update: number) => number>> = {
  set: (_, update) => update,
  add: (x, update) => x + update,
  mul: (x, update) => x * update,
  max: Math.max,
  min: Math.min,
};

/**
 * Makes a call along the middle axis, and looks at every byte. f32 updates have magnitudes that make sums depend on their
 * order; f16 ones are whole, few of which are added to one element.
 */
async function checkCall(backend: ComputeBackend, call: ScatterCall): Promise<void> {
  const { dtype, kind, extents, before = [0, 0], perOuter = false, perInner = false } = call;
  const [outer, length, count, inner] = extents;
  const across = perInner ? inner : 1;
  const indices = indicesFor((perOuter ? outer : 1) * count * across, length, call.spread ?? length);
  const next = random(length + inner);
  const draw = () =>
    dtype === "f32"
      ? next() * 2 ** Math.floor(next() * 20 - 10)
      : Math.floor(next() * 4) + (kind === "mul" ? 0 : 1);
  const round = { f32: Math.fround, f16: Number, i32: (x: number) => x | 0, u32: (x: number) => x >>> 0 }[
    dtype
  ];
  const updates = Array.from({ length: outer * count * inner }, () => round(draw()));
  const output = Array.from({ length: outer * length * inner }, () => round(draw()));
  const expected = output.slice();
  for (const [at, update] of updates.entries()) {
    const [row, i] = [Math.floor(at / inner), at % inner];
    const [o, j] = [Math.floor(row / count), row % count];
    const index = indices[((perOuter ? o : 0) * count + j) * across + (perInner ? i : 0)]!;
    if (index < 0 || index >= length) continue;
    const to = (o * length + index) * inner + i;
    expected[to] = round(combine[kind](expected[to]!, update));
  }
  const size = dtypeBytes[dtype];
  const imageOf = (values: readonly number[], first: number) => {
    const image = noise((first + values.length) * size + 37, 5);
    image.set(encode(values, dtype), first * size);
    return image;
  };
  const images = [encode(indices, "i32"), imageOf(updates, before[0]), imageOf(output, before[1])];
  const [by, source, to] = images.map((image) => {
    const handle = backend.alloc(image.length);
    backend.copyHtoD(handle, image);
    return handle;
  }) as [DeviceHandle, DeviceHandle, DeviceHandle];
  backend.scatter({
    ...{ kind, shape: [outer, length, inner], axis: 1, dtype, indices: by },
    indexShape: [perOuter ? outer : 1, count, across],
    updates: { handle: source, byteOffset: before[0] * size },
    output: { handle: to, byteOffset: before[1] * size },
  });
  const got = new Uint8Array(images[2]!.length);
  await backend.copyDtoH(got, to);
  for (const handle of [by, source, to]) backend.free(handle);
  const wanted = imageOf(expected, before[1]);
  const wrong = got.findIndex((byte, i) => byte !== wanted[i]);
  if (wrong >= 0)
    assert.fail(
      `${JSON.stringify(call)}: byte ${wrong - before[1] * size} is ${got[wrong]}, not ${wanted[wrong]}`,
    );
}

async function open(limits: Record<string, number>): Promise<ComputeBackend> {
  const backend = createBackend(driverOf(findDawn, { limits }));
  await backend.init();
  return backend;
}

const limited = [
  { name: "", limits: {} },
  // Programs with more workgroups than one dimension has start up to a row of them too many.
  { name: " in grids of two dimensions", limits: { maxComputeWorkgroupsPerDimension: 37 } },
] as const;

for (const { name, limits } of limited)
  describe(`webgpu scatter${name}`, () => {
    let backend: ComputeBackend;
    before(async () => {
      backend = await open(limits);
    });
    after(() => backend.dispose());

    for (const dtype of scatterTypes)
      it(`makes all updates of an element in order, in lists and columns of ${dtype}`, async () => {
        const calls: readonly Omit<ScatterCall, "dtype" | "kind">[] = [
          // Rows of vectors, of words, of neither; one element for each index; keys of one digit and of several.
          { extents: [1, 400, 300, 64] },
          { extents: [1, 9, 50, 1030], spread: 2 },
          { extents: [3, 40, 70, 6], perOuter: true },
          { extents: [2, 70, 80, 7], perOuter: true, before: [1, 3] },
          { extents: [3, 300, 260, 12], before: [2, 1] },
          { extents: [1, 70_000, 1500, 1] },
          { extents: [2, 20, 300, 5], perInner: true },
          { extents: [2, 20, 300, 8], perInner: true, perOuter: true, before: [4, 2] },
          // Lists around the updates that are under way at once; all in one.
          ...[1, 3, 4, 5, 8, 9].map((count) => ({ extents: [1, 2, 4 * count, 36] as const, spread: 1 })),
          // Tiles of several rounds: more updates than all tiles have invocations.
          { extents: [1, 7000, 300_001, 1] },
          // Columns.
          { extents: [1, 20, 5, 64] },
          { extents: [4, 7, 3, 33], perOuter: true, before: [3, 2] },
        ];
        for (const call of calls)
          for (const kind of ["add", "set"] as const) await checkCall(backend, { ...call, dtype, kind });
        for (const kind of ["mul", "max", "min"] as const)
          await checkCall(backend, { dtype, kind, extents: [1, 300, 90, 20] });
      });
  });

describe("webgpu scatter in ranges of keys", () => {
  const device = withProducts();

  /** f32 sums depend on their order. */
  async function checkRanges(
    call: Omit<ScatterCall, "kind" | "dtype"> & { readonly kind: "add" | "max"; readonly dtype: FloatType },
  ) {
    const { dtype, kind, extents, perOuter = false, spread } = call;
    const [outer, length, count, inner] = extents;
    const indices = indicesFor((perOuter ? outer : 1) * count, length, spread ?? length);
    const next = random(length + inner);
    const one = {
      f32: () => next() * 2 ** Math.floor(next() * 20 - 10),
      f16: () => Math.floor(next() * 4),
    };
    const draw = (elements: number) => Float32Array.from({ length: elements }, one[dtype]);
    const [updates, before] = [draw(outer * count * inner), draw(outer * length * inner)];
    const expected = before.slice();
    for (const [at, update] of updates.entries()) {
      const [row, i] = [Math.floor(at / inner), at % inner];
      const [o, j] = [Math.floor(row / count), row % count];
      const index = indices[(perOuter ? o : 0) * count + j]!;
      if (index < 0 || index >= length) continue;
      const to = (o * length + index) * inner + i;
      expected[to] = combine[kind](expected[to]!, update);
    }
    const regions = {
      indices: device().place(new Float32Array(indices.buffer), "f32"),
      updates: device().place(updates, dtype),
      output: device().place(before, dtype),
    };
    const problem: ScatterProblem<DeviceMemory> = {
      ...{ dtype, kind, outer, length, count, inner, ...regions },
      ...{ outerStride: perOuter ? count : 0, axisStride: 1, innerStride: 0 },
    };
    const results = Array.from(expected, (value, index) => ({ index, value, tolerance: 0 }));
    await device().check(regions.output, dtype, results, JSON.stringify(call), () =>
      device().run((context) => scatter.run(context, problem), asLargeGpu),
    );
    assert.match(device().programs.join(), /^scatter_ranges_/);
    device().free(...Object.values(regions));
  }

  it("makes all updates of an element, in order", async () => {
    // More updates of a range than a workgroup has invocations, and than a chunk has, of which it looks through two.
    await checkRanges({ dtype: "f32", kind: "add", extents: [1, 30, 9000, 8] });
    await checkRanges({ dtype: "f32", kind: "max", extents: [1, 600, 700, 3], spread: 40 });
    await checkRanges({ dtype: "f16", kind: "max", extents: [3, 20, 100, 6], perOuter: true });
    // The same indices for all slabs, and rows longer than a workgroup has invocations.
    await checkRanges({ dtype: "f32", kind: "add", extents: [2, 7, 90, 1040] });
  });
});

describe("webgpu scatter of very many updates", () => {
  it("takes some after the others, of slabs and of one", async () => {
    const backend = await open({});
    for (const extents of [
      [3, 50_003, 1_500_000, 1],
      [1, 70_000, 4_300_000, 1],
    ] as const)
      await checkCall(backend, { dtype: "f32", kind: "add", extents, perOuter: true });
    await backend.dispose();
  });
});

describe("webgpu scatter above the binding limit", () => {
  let backend: ComputeBackend;
  before(async () => {
    backend = await open({ maxStorageBufferBindingSize: 20_000 });
  });
  after(() => backend.dispose());

  for (const dtype of scatterTypes)
    it(`in parts: slabs, updates, rows of the output and parts of a row, in ${dtype}`, async () => {
      const tables: readonly Extents[] = [
        [1, 300, 200, 64],
        [1, 90, 9000, 1],
        [1, 30_000, 3000, 1],
        [40, 70, 30, 3],
        [1, 3, 50, 1111],
        [1, 1, 20, 12_345],
        [2, 400, 1200, 5],
      ];
      for (const extents of tables)
        for (const per of [false, true])
          for (const kind of ["add", "set"] as const)
            await checkCall(backend, { dtype, kind, extents, before: [3, 5], perOuter: per, perInner: per });
    });
});

type Planned = Pick<ScatterProblem<unknown>, "dtype" | "kind">;

describe("webgpu scatter plans", () => {
  const plan = (
    [outer, length, count, inner]: Extents,
    { dtype = "f32", kind = "add" }: Partial<Planned> = {},
    { at = [0, 0], perOuter = false, perInner = false, canLookThrough = true } = {},
  ) => {
    const [updates, output] = at.map((byteOffset) => ({ byteOffset })) as [
      { byteOffset: number },
      { byteOffset: number },
    ];
    const outerStride = perOuter ? count * (perInner ? inner : 1) : 0;
    const innerStride: 0 | 1 = perInner ? 1 : 0;
    const regions = { updates, output };
    const problem = { dtype, kind, outer, length, count, inner, outerStride, innerStride, ...regions };
    return planScatter(problem, canLookThrough);
  };
  const half = { dtype: "f16" } as const;
  const set = { kind: "set" } as const;

  it("walk along columns if there are few updates of each, or very many columns", () => {
    assert.deepEqual(plan([1, 50_000, 8, 1024]), { form: "columns", width: 1 });
    assert.deepEqual(plan([1, 50_000, 8, 1024], half), { form: "columns", width: 2 });
    assert.equal(plan([1, 1000, 50, 2 ** 22], {}, { perInner: true }).form, "columns");
    assert.equal(plan([1, 50_000, 9, 1024]).form, "ranges");
    assert.equal(plan([1, 50_000, 12, 1024], set).form, "columns");
    assert.equal(plan([1, 50_000, 13, 1024], set).form, "last");
  });

  it("sort updates that are too many to be looked through for each range of keys", () => {
    assert.equal(plan([1, 50_000, 2 ** 14, 64]).form, "ranges");
    assert.equal(plan([1, 50_000, 2 ** 14 + 1, 64]).form, "lists");
    assert.equal(plan([2, 50_000, 2 ** 14, 64]).form, "lists");
    assert.equal(plan([1, 50_000, 2 ** 14, 1024]).form, "lists");
    // Halves that share words with others.
    assert.equal(plan([1, 50_000, 8192, 63], half).form, "lists");
    assert.equal(plan([1, 50_000, 2 ** 14, 64], {}, { canLookThrough: false }).form, "lists");
    assert.deepEqual(rangesOfKeys(50_000), { ranges: 511, range: 98 });
    assert.deepEqual(rangesOfKeys(30), { ranges: 30, range: 1 });
  });

  it("take rows in the largest units that they are made of", () => {
    const of = (inner: number, planned: Partial<Planned>, at: [number, number] = [0, 0]) => {
      const found = plan([2, 500, 300, inner], planned, { at });
      if (found.form === "columns") return found.form;
      const unit = found.form === "last" ? found.unit : found.vector;
      return `${found.form} ${unit} ${found.rows}x${found.units}`;
    };
    assert.equal(of(64, {}), "ranges 4 600x16");
    assert.equal(of(64, {}, [4, 0]), "ranges 1 600x64");
    assert.equal(of(66, {}), "ranges 1 600x66");
    assert.equal(of(64, half), "ranges 4 600x16");
    assert.equal(of(66, half), "ranges 2 600x33");
    assert.equal(of(64, half, [0, 4]), "ranges 2 600x32");
    assert.equal(of(64, half, [2, 0]), "lists 1 38400x1");
    assert.equal(of(63, half), "lists 1 37800x1");
    assert.equal(of(64, set), "last block 600x16");
    assert.equal(of(66, set), "last word 600x66");
    assert.equal(of(66, { ...half, ...set }), "last word 600x33");
    assert.equal(of(63, { ...half, ...set }), "lists 1 37800x1");
  });

  it("sort the updates that have indices of their own by as few digits as their targets need", () => {
    const of = (...args: Parameters<typeof plan>) => {
      const found = plan(...args);
      return found.form === "lists"
        ? [found.entries, found.keys, found.digits.map(({ mask }) => mask)]
        : undefined;
    };
    assert.deepEqual(of([1, 50_257, 65_536, 1024]), [65_536, 50_257, [255, 255]]);
    assert.deepEqual(of([8, 50_257, 16_384, 64]), [16_384, 50_257, [255, 255]]);
    assert.deepEqual(of([2, 100_000, 20_000, 64], {}, { perOuter: true }), [40_000, 200_000, [63, 63, 63]]);
    assert.deepEqual(of([1, 127, 2 ** 18, 1]), [2 ** 18, 127, [127]]);
    assert.deepEqual(of([1, 255, 2 ** 18, 1]), [2 ** 18, 255, [255]]);
    assert.deepEqual(of([1, 256, 2 ** 18, 1]), [2 ** 18, 256, [31, 15]]);
    assert.deepEqual(of([1, 30, 40_960, 5], {}, { perInner: true }), [204_800, 150, [255]]);
  });

  it("share entries between tiles, and rows between invocations", () => {
    assert.deepEqual([1, 256, 257, 4096, 4097, 2 ** 22].map(tilesFor), [1, 1, 2, 16, 20, 1024]);
    assert.deepEqual([1, 2, 3, 256, 257, 1024].map(shareOfRow), [
      { laneShift: 0, parts: 1 },
      { laneShift: 1, parts: 1 },
      { laneShift: 2, parts: 1 },
      { laneShift: 8, parts: 1 },
      { laneShift: 8, parts: 2 },
      { laneShift: 8, parts: 4 },
    ]);
  });
});
