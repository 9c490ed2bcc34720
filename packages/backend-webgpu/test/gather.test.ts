// Tags: kernels, pure
import {
  type ComputeBackend,
  createBackend,
  dtypeBytes,
  type GatherProblem,
  type GatherType,
} from "@backplane/core";
import { assert } from "chai";
import { unitForms } from "#src/kernels/gather/gather.wgsl.js";
import { planAlong, planGather } from "#src/kernels/gather/select.js";
import { driverOf, encode, findDawn, noise, random } from "./support.js";

type Extents = readonly [outer: number, length: number, count: number, inner: number];

interface GatherCall {
  readonly dtype: GatherType;
  readonly extents: Extents;
  /** Elements in front of the input and of the output. */
  readonly before?: readonly [input: number, output: number];
  readonly perOuter?: boolean;
  readonly perInner?: boolean;
}

/** A third of them out of range. */
function indicesFor(count: number, length: number): Int32Array {
  const next = random(count + length);
  const outside = [-1, length, -length, -(2 ** 31), 2 ** 31 - 1];
  return Int32Array.from({ length: count }, () =>
    next() < 0.33 ? outside[Math.floor(5 * next())]! : Math.floor(next() * length),
  );
}

/** Makes a call along the middle axis, and looks at every byte. */
async function checkCall(backend: ComputeBackend, call: GatherCall): Promise<void> {
  const { dtype, extents, before = [0, 0], perOuter = false, perInner = false } = call;
  const [outer, length, count, inner] = extents;
  const size = dtypeBytes[dtype];
  const shape = [outer, length, inner];
  const indexShape = [perOuter ? outer : 1, count, perInner ? inner : 1];
  const across = perInner ? inner : 1;
  const indices = indicesFor((perOuter ? outer : 1) * count * across, length);
  const source = noise((before[0] + outer * length * inner) * size, 5);
  const start = before[1] * size;
  const image = noise(start + outer * count * inner * size + 37, 6);
  const expected = image.slice();
  for (let at = 0; at < outer * count * inner; at++) {
    const [row, i] = [Math.floor(at / inner), at % inner];
    const [o, j] = [Math.floor(row / count), row % count];
    const index = indices[((perOuter ? o : 0) * count + j) * across + (perInner ? i : 0)]!;
    const from = (before[0] + (o * length + index) * inner + i) * size;
    const isFound = index >= 0 && index < length;
    for (let byte = 0; byte < size; byte++)
      expected[start + at * size + byte] = isFound ? source[from + byte]! : 0;
  }
  const places = encode(indices, "i32");
  const handles = [source, places, image].map((bytes) => backend.alloc(bytes.length)) as [
    ReturnType<ComputeBackend["alloc"]>,
    ReturnType<ComputeBackend["alloc"]>,
    ReturnType<ComputeBackend["alloc"]>,
  ];
  for (const [i, bytes] of [source, places, image].entries()) backend.copyHtoD(handles[i]!, bytes);
  const [from, by, to] = handles;
  backend.gather({
    ...{ shape, axis: 1, indexShape, dtype, indices: by },
    input: { handle: from, byteOffset: before[0] * size },
    output: { handle: to, byteOffset: start },
  });
  const got = new Uint8Array(image.length);
  await backend.copyDtoH(got, to);
  for (const handle of handles) backend.free(handle);
  const wrong = got.findIndex((byte, i) => byte !== expected[i]);
  const label = `${dtype} of [${extents}] at ${before}, ${perOuter}, ${perInner}`;
  if (wrong >= 0) assert.fail(`${label}: byte ${wrong - start} is ${got[wrong]}, not ${expected[wrong]}`);
}

const types = ["f32", "f16", "u8"] as const;

const suites = [
  { name: "", limits: {} },
  // Programs with more workgroups than one dimension has start up to a row of them too many.
  { name: " in grids of two dimensions", limits: { maxComputeWorkgroupsPerDimension: 5 } },
] as const;

for (const { name, limits } of suites)
  describe(`webgpu gather${name}`, () => {
    let backend: ComputeBackend;
    before(async () => {
      backend = createBackend(driverOf(findDawn, { limits }));
      await backend.init();
    });
    after(() => backend.dispose());

    for (const dtype of types)
      it(`brings rows and elements of ${dtype}, of whole units and others, at any place`, async () => {
        const extents: readonly Extents[] = [
          [2, 5, 7, 1],
          [3, 9, 300, 3],
          [2, 30, 41, 64],
          [1, 4, 130, 36],
          [2, 3, 5, 1029],
          [1, 6, 4100, 2],
          [3, 70, 4096, 1],
        ];
        for (const each of extents)
          for (const [perOuter, perInner] of [
            [false, false],
            [true, each[3] % 2 === 1],
          ] as const)
            for (const places of [
              [0, 0],
              [3, 1],
              [4, 8],
            ] as const)
              await checkCall(backend, { dtype, extents: each, before: places, perOuter, perInner });
      });
  });

/** Bytes that a binding may show: no multiple of 256, of which windows are made. */
const LIMIT = 4200;

describe("webgpu gather above the binding limit", () => {
  let backend: ComputeBackend;
  before(async () => {
    backend = createBackend(driverOf(findDawn, { limits: { maxStorageBufferBindingSize: LIMIT } }));
    await backend.init();
  });
  after(() => backend.dispose());

  for (const dtype of types)
    it(`in parts: slabs, results, rows of the input and parts of a row, in ${dtype}`, async () => {
      const tables: readonly Extents[] = [
        [1, 300, 90, 16],
        [1, 9000, 20, 1],
        [40, 70, 3, 3],
        [1, 5, 3000, 7],
        [1, 2, 2, 9001],
        [1, 1, 1, 20_000],
        [3, 1300, 1200, 4],
        [2, 9000, 5120, 1],
      ];
      for (const extents of tables)
        for (const per of [false, true])
          await checkCall(backend, { dtype, extents, before: [3, 5], perOuter: per, perInner: per });
    });
});

describe("webgpu gather plans", () => {
  const plan = (
    dtype: GatherType,
    [outer, length, count, inner]: Extents,
    { at = [0, 0], perInner = false }: { at?: readonly [number, number]; perInner?: boolean } = {},
  ) => {
    const [input, output] = at.map((byteOffset) => ({ byteOffset })) as [
      { byteOffset: number },
      { byteOffset: number },
    ];
    const innerStride: GatherProblem<unknown>["innerStride"] = perInner ? 1 : 0;
    const { unit, units, workgroups } = planGather({
      ...{ dtype, outer, length, count, inner, innerStride, input, output },
    });
    const perGroup = 256 * unitForms[unit].perInvocation;
    assert.isAtLeast(workgroups * perGroup, units);
    return `${unit} ${units}`;
  };

  it("move rows in the largest units that they are made of", () => {
    assert.equal(plan("f32", [1, 50_257, 16_384, 1024]), `block ${16_384 * 256}`);
    assert.equal(plan("f32", [1, 9, 7, 6]), "word 42");
    assert.equal(plan("f32", [1, 9, 7, 8], { at: [4, 0] }), "word 56");
    assert.equal(plan("f32", [1, 9, 7, 8], { perInner: true }), "word 56");
    assert.equal(plan("f16", [1, 9, 7, 8]), "block 7");
    assert.equal(plan("f16", [1, 9, 7, 6]), "word 21");
    assert.equal(plan("f16", [1, 9, 7, 6], { at: [2, 2] }), "half 42");
    assert.equal(plan("f16", [1, 9, 7, 5]), "half 35");
    assert.equal(plan("u8", [1, 9, 7, 16]), "block 7");
    assert.equal(plan("u8", [1, 9, 7, 12]), "word 21");
    assert.equal(plan("u8", [1, 9, 7, 12], { at: [0, 2] }), "byte 84");
    assert.equal(plan("u8", [1, 9, 7, 16], { perInner: true }), "byte 112");
  });

  it("read an index once for all that an invocation takes of a row, unless rows are short", () => {
    const lineOf = (inner: number, dtype: GatherType = "f32", byteOffset = 0) =>
      planGather({
        ...{ dtype, outer: 2, count: 100, inner, innerStride: 0 },
        ...{ input: { byteOffset }, output: { byteOffset: 0 } },
      }).line;
    assert.deepEqual(lineOf(1024), { laneShift: 6, parts: 1 });
    assert.deepEqual(lineOf(1024, "f32", 4), { laneShift: 8, parts: 1 });
    assert.deepEqual(lineOf(4104), { laneShift: 6, parts: 5 });
    assert.deepEqual(lineOf(128, "f16"), { laneShift: 3, parts: 1 });
    assert.isUndefined(lineOf(63));
    assert.isUndefined(lineOf(77, "u8"));
  });

  it("take elements along long lines by whole vectors", () => {
    const of = (
      dtype: GatherType,
      count: number,
      { inner = 1, indices = 0, output = 0, perOuter = true } = {},
    ) =>
      planAlong({
        ...{ dtype, count, inner, outerStride: perOuter ? count : 0 },
        ...{ indices: { byteOffset: indices }, output: { byteOffset: output } },
      });
    assert.deepEqual(of("f32", 16_384), { bytes: 4, perLine: 8, vectors: 4096, lineStride: 4096 });
    assert.deepEqual(of("f16", 1024, { perOuter: false }), {
      ...{ bytes: 2, perLine: 1, vectors: 128, lineStride: 0 },
    });
    assert.include(of("u8", 4096), { bytes: 1, perLine: 1, vectors: 256 });
    assert.include(of("f32", 1024), { perLine: 1 });
    for (const other of [
      of("f32", 1020),
      of("f32", 4098),
      of("f16", 4092),
      of("f32", 4096, { inner: 2 }),
      of("f32", 4096, { indices: 4 }),
      of("f32", 4096, { output: 8 }),
    ])
      assert.isUndefined(other);
  });

  it("have an invocation for the elements that share the first word with others", () => {
    const of = (dtype: GatherType, count: number, byteOffset: number) =>
      planGather({
        ...{
          dtype,
          outer: 1,
          count,
          inner: 1,
          innerStride: 0,
          input: { byteOffset: 0 },
          output: { byteOffset },
        },
      }).workgroups;
    assert.equal(of("u8", 1023, 1), 1);
    assert.equal(of("u8", 1024, 1), 2);
    assert.equal(of("f16", 511, 2), 1);
    assert.equal(of("f16", 512, 2), 2);
  });
});
