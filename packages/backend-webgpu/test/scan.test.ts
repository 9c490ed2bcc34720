// Tags: kernels, pure
import { type ComputeBackend, createBackend, decodeFloat16, type ScanKind } from "@backplane/core";
import { assert } from "chai";
import { isInEights, planScan } from "#src/kernels/scan/select.js";
import { driverOf, encode, findDawn, random } from "./support.js";

type Extents = readonly [outer: number, length: number, inner: number];

async function open(limits: Record<string, number>): Promise<ComputeBackend> {
  const backend = createBackend(driverOf(findDawn, { limits }));
  await backend.init();
  return backend;
}

/** Sums of whole numbers, which are exact. */
async function check(backend: ComputeBackend, extents: Extents, exclusive: boolean, reverse: boolean) {
  const [outer, length, inner] = extents;
  const next = random(length + inner);
  const values = Int32Array.from({ length: outer * length * inner }, () => Math.floor(next() * 2000) - 1000);
  const expected = new Int32Array(values.length);
  for (let row = 0; row < outer * inner; row++) {
    let sum = 0;
    for (let step = 0; step < length; step++) {
      const j = reverse ? length - 1 - step : step;
      const at = (Math.floor(row / inner) * length + j) * inner + (row % inner);
      expected[at] = exclusive ? sum : sum + values[at]!;
      sum += values[at]!;
    }
  }
  const [input, output] = [backend.alloc(values.byteLength), backend.alloc(values.byteLength)];
  backend.copyHtoD(input, values);
  backend.scan({ kind: "sum", shape: extents, axis: 1, exclusive, reverse, input, output, dtype: "i32" });
  const got = new Int32Array(values.length);
  await backend.copyDtoH(got, output);
  for (const handle of [input, output]) backend.free(handle);
  assert.deepEqual(got, expected, `[${extents}] ${exclusive} ${reverse}`);
}

describe("webgpu scan within limits", () => {
  for (const [name, limits] of [
    ["cuts what is above the binding limit", { maxStorageBufferBindingSize: 4200 }],
    ["minds workgroups too many in grids of two dimensions", { maxComputeWorkgroupsPerDimension: 29 }],
  ] as const)
    it(name, async () => {
      const backend = await open(limits);
      for (const extents of [
        [40, 70, 1],
        [1, 9001, 1],
        [2, 40_000, 1],
        [1, 700, 70],
        [1, 3, 5000],
        [1, 5000, 3],
      ] as const)
        for (const flag of [false, true]) await check(backend, extents, !flag, flag);
      await backend.dispose();
    });
});

/** Sums and maxima of few small whole numbers in f16, which are exact. */
async function checkHalves(
  backend: ComputeBackend,
  kind: ScanKind & ("sum" | "max"),
  [outer, length]: readonly [outer: number, length: number],
  exclusive: boolean,
  reverse: boolean,
) {
  const next = random(length);
  const values = Array.from({ length: outer * length }, () => Math.floor(next() * 5) - 2);
  const expected = values.slice();
  const join = { sum: (x: number, y: number) => x + y, max: Math.max }[kind];
  for (let row = 0; row < outer; row++) {
    let before = kind === "sum" ? 0 : Number.NEGATIVE_INFINITY;
    for (let step = 0; step < length; step++) {
      const at = row * length + (reverse ? length - 1 - step : step);
      const after = join(before, values[at]!);
      expected[at] = exclusive ? before : after;
      before = after;
    }
  }
  const stored = encode(values, "f16");
  const [input, output] = [backend.alloc(stored.byteLength), backend.alloc(stored.byteLength)];
  backend.copyHtoD(input, stored);
  backend.scan({ kind, shape: [outer, length], exclusive, reverse, input, output, dtype: "f16" });
  const got = new Uint16Array(values.length);
  await backend.copyDtoH(got, output);
  for (const handle of [input, output]) backend.free(handle);
  assert.deepEqual(
    Array.from(decodeFloat16(got)),
    expected,
    `${kind} [${outer}, ${length}] ${exclusive} ${reverse}`,
  );
}

describe("webgpu scan of rows of f16", () => {
  it("takes eight at a time, in one tile of a row and in several, and cuts long rows", async () => {
    const backend = await open({});
    for (const [kind, extents] of [
      ["sum", [3, 8]],
      ["sum", [5, 64]],
      ["max", [70, 120]],
      ["sum", [9, 256]],
      ["sum", [3, 2048]],
      ["sum", [5, 200]],
      ["sum", [2, 4104]],
      ["sum", [1, 20_000]],
      ["max", [1, 40_000]],
      ["max", [3, 1000]],
    ] as const)
      for (const exclusive of [false, true])
        for (const reverse of [false, true]) await checkHalves(backend, kind, extents, exclusive, reverse);
    await backend.dispose();
  });
});

describe("webgpu scan plans", () => {
  it("give rows to workgroups of their own if there are many, and cut them otherwise", () => {
    const plan = (outer: number, length: number, inner: number) =>
      planScan({ outer, length, inner }, 4, Number.POSITIVE_INFINITY);
    assert.deepInclude(plan(16_384, 4096, 1), { along: "length", lanes: 256, rounds: 1, segments: 1 });
    assert.deepInclude(plan(2 ** 20, 64, 1), { lanes: 16, rounds: 1, segments: 1, rowBlocks: 65_536 });
    assert.deepInclude(plan(64, 2 ** 20, 1), { lanes: 256, segments: 32, segmentLength: 8192 });
    assert.deepInclude(plan(1, 4096, 16_384), { along: "inner", segments: 32, segmentLength: 128 });
    assert.equal(planScan({ outer: 1, length: 2 ** 20, inner: 1 }, 4, 3).segments, 3);
    const ofSingles = planScan({ outer: 16_384, length: 4095, inner: 1 }, 1, Number.POSITIVE_INFINITY);
    assert.deepInclude(ofSingles, { lanes: 256, rounds: 4, segments: 1 });
  });

  it("take eight elements of f16 at a time where rows consist of them", () => {
    const row = { outer: 1, length: 4096, inner: 1 };
    assert.isTrue(isInEights(["f16", "f16"], row, [0, 32]));
    assert.isFalse(isInEights(["f16", "f16"], row, [0, 8]));
    assert.isFalse(isInEights(["f16", "f32"], row, [0, 0]));
    assert.isFalse(isInEights(["f16", "f16"], { ...row, length: 4100 }, [0, 0]));
    assert.isFalse(isInEights(["f16", "f16"], { ...row, inner: 8 }, [0, 0]));
    const plan = planScan({ outer: 16_384, length: 4096, inner: 1 }, 8, Number.POSITIVE_INFINITY);
    assert.deepInclude(plan, { length: 512, lanes: 256, rounds: 1, segments: 1 });
    const short = planScan({ outer: 2 ** 20, length: 64, inner: 1 }, 8, Number.POSITIVE_INFINITY);
    assert.deepInclude(short, { length: 8, lanes: 8, rounds: 1, segments: 1 });
  });
});
