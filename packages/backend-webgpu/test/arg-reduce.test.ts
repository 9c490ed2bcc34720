// Tags: kernels, pure
import { type ArgReduceKind, type ComputeBackend, createBackend } from "@backplane/core";
import { assert } from "chai";
import { argReduce } from "#src/kernels/arg-reduce/index.js";
import { planArgReduce, planJoin } from "#src/kernels/arg-reduce/select.js";
import { placeholder } from "#src/kernels/segments/index.js";
import {
  type BufferRegion,
  driverOf,
  dtypeBytes,
  encode,
  findDawn,
  mostScratch,
  portable,
  random,
} from "./support.js";

type Extents = readonly [outer: number, length: number, inner: number];
type Type = "f32" | "f16";

/** The first place that no other beats, of numbers alone. */
function reference(kind: ArgReduceKind, x: ArrayLike<number>, [outer, length, inner]: Extents): number[] {
  return Array.from({ length: outer * inner }, (_, row) => {
    const first = Math.floor(row / inner) * length * inner + (row % inner);
    let place = 0;
    for (let j = 1; j < length; j++) {
      const [value, best] = [x[first + j * inner]!, x[first + place * inner]!];
      if (kind === "argMax" ? value > best : value < best) place = j;
    }
    return place;
  });
}

async function check(
  backend: ComputeBackend,
  kind: ArgReduceKind,
  dtype: Type,
  extents: Extents,
  before = 0,
) {
  const [outer, length, inner] = extents;
  const next = random(length + inner);
  // Several elements of most rows are the best.
  const values = Float32Array.from(
    { length: outer * length * inner },
    () => Math.floor(next() * 2000) - 1000,
  );
  const bytes = encode(values, dtype);
  const byteOffset = before * dtypeBytes[dtype];
  const input = backend.alloc(byteOffset + bytes.length);
  const output = backend.alloc(4 * (outer * inner + 2));
  backend.copyHtoD({ handle: input, byteOffset }, bytes);
  backend.fill(output, -7, outer * inner + 2, "i32");
  backend.argReduce({
    ...{ kind, shape: extents, axis: 1, dtype },
    ...{ input: { handle: input, byteOffset }, output: { handle: output, byteOffset: 4 } },
  });
  const got = new Int32Array(outer * inner + 2);
  await backend.copyDtoH(got, output);
  for (const handle of [input, output]) backend.free(handle);
  assert.deepEqual([...got], [-7, ...reference(kind, values, extents), -7], `${kind} ${dtype} [${extents}]`);
}

async function open(limits: Record<string, number>): Promise<ComputeBackend> {
  const backend = createBackend(driverOf(findDawn, { limits }));
  await backend.init();
  return backend;
}

describe("webgpu argReduce within limits", () => {
  it("cuts what is above the binding limit, wherever it begins", async () => {
    // No multiple of 256, of which windows are made.
    const backend = await open({ maxStorageBufferBindingSize: 4200 });
    for (const [kind, dtype, extents, before] of [
      ["argMax", "f32", [40, 70, 1], 3],
      ["argMax", "f32", [1, 9001, 1], 3],
      ["argMin", "f16", [2, 9001, 1], 1],
      ["argMax", "f32", [1, 700, 70], 0],
      ["argMax", "f32", [1, 3, 5000], 3],
      ["argMin", "f16", [1, 7, 5000], 1],
      ["argMax", "f32", [5000, 1, 1], 3],
    ] as const)
      await check(backend, kind, dtype, extents, before);
    await backend.dispose();
  });

  it("minds workgroups too many in grids of two dimensions", async () => {
    const backend = await open({ maxComputeWorkgroupsPerDimension: 29 });
    await check(backend, "argMax", "f32", [5000, 5, 1]);
    await check(backend, "argMax", "f32", [1, 700, 600]);
    await backend.dispose();
  });
});

describe("webgpu argReduce of rows of f16", () => {
  const extents: readonly Extents[] = [
    [300, 8, 1],
    [70, 64, 1],
    [37, 256, 1],
    [5, 1000, 1],
    [3, 4096, 1],
    [1, 40_000, 1],
  ];

  it("takes eight elements at a time, and fewer of rows that begin elsewhere", async () => {
    const backend = await open({});
    for (const shape of extents)
      for (const before of [0, 8, 4, 1])
        for (const kind of ["argMax", "argMin"] as const) await check(backend, kind, "f16", shape, before);
    await backend.dispose();
  });

  it("finds the first NaN of either sign, wherever it is", async () => {
    const backend = await open({});
    for (const [rows, length] of [
      [64, 64],
      [256, 256],
      [40, 4096],
    ] as const) {
      const halves = Uint16Array.from(
        { length: rows * length },
        (_, i) => [0x7c00, 0xfc00, 0, 0x8000][i % 4]!,
      );
      const expected = Array.from({ length: rows }, (_, row) => (row * 101) % length);
      for (const [row, place] of expected.entries()) {
        const first = row * length;
        halves[first + place] = row % 2 === 0 ? 0x7c01 : 0xffff;
        // Another one behind it.
        halves[first + Math.min(length - 1, place + 1 + (row % 9))] = 0x7e00;
      }
      for (const kind of ["argMax", "argMin"] as const) {
        const [input, output] = [backend.alloc(halves.byteLength), backend.alloc(4 * rows)];
        backend.copyHtoD(input, halves);
        backend.argReduce({ kind, shape: [rows, length], axis: 1, dtype: "f16", input, output });
        const got = new Int32Array(rows);
        await backend.copyDtoH(got, output);
        for (const handle of [input, output]) backend.free(handle);
        assert.deepEqual(Array.from(got), expected, `${kind} [${rows}, ${length}]`);
      }
    }
    await backend.dispose();
  });
});

describe("webgpu argReduce plans", () => {
  const plan = ([outer, length, inner]: Extents, offset = 0, most?: number, dtype: Type = "f32") => {
    const made = planArgReduce(dtype, { outer, length, inner }, offset, most);
    return `${made.along} ${made.vector} ${made.lanes}x${made.segments}`;
  };

  it("share rows as far as keeps loads together and a large device busy", () => {
    assert.equal(plan([16_384, 4096, 1]), "length 4 64x1");
    assert.equal(plan([2 ** 20, 64, 1]), "length 4 4x1");
    assert.equal(plan([64, 2 ** 20, 1]), "length 4 256x32");
    assert.equal(plan([64, 2 ** 20, 1], 4), "length 1 256x32");
    assert.equal(plan([1, 4096, 16_384]), "inner 4 16x3");
    assert.equal(plan([1, 2 ** 20, 64]), "inner 4 16x528");
    assert.equal(plan([1, 4096, 16_383]), "inner 1 16x1");
    assert.equal(plan([1, 2 ** 24, 1], 0, 3), "length 4 256x3");
    assert.equal(plan([2 ** 22, 3, 1]), "length 1 1x1");
    assert.deepInclude(planJoin(64, 64), { segments: 1, length: 64, lanes: 16 });
    assert.deepInclude(planJoin(1, 4096), { segments: 1, length: 4096, lanes: 256 });
  });

  it("have an invocation for every element, and ask for no more scratch than is looked for before", () => {
    for (const extents of [
      ...([
        [64, 2 ** 20, 1],
        [1, 2 ** 26, 1],
        [1, 4096, 16_384],
        [3, 2 ** 20, 5],
      ] as const),
      ...([
        [2 ** 20, 3, 5],
        [2 ** 22, 1, 1],
        [700, 127, 2],
        [700, 128, 1],
      ] as const),
    ])
      for (const byteOffset of [0, 4]) {
        const [outer, length, inner] = extents;
        const made = planArgReduce("f32", { outer, length, inner }, byteOffset);
        assert.equal(made.rows * made.length * made.vector, outer * length * inner);
        assert.isAtLeast(made.segments * made.segmentLength, made.length);
        assert.isBelow((made.segments - 1) * made.segmentLength, made.length);
        assert.isAtLeast((made.rowBlocks * 256) / made.lanes, made.rows);
        const region = (bytes: number): BufferRegion => ({ ...placeholder(bytes), byteOffset });
        const problem = {
          ...({ kind: "argMax", dtype: "f32", outer, length, inner } as const),
          ...{ input: region(4 * outer * length * inner), output: region(4 * outer * inner) },
        };
        const asked = mostScratch(argReduce, portable, problem);
        assert.isAtMost(asked, argReduce.segments({} as never).scratchBound(problem, 0), `[${extents}]`);
      }
  });
});
