// Tags: kernels, pure
import {
  type ComputeBackend,
  createBackend,
  dtypeBytes,
  type FloatType,
  floatTypes,
  type SoftmaxKind,
  softmaxKinds,
} from "@backplane/core";
import { assert } from "chai";
import { planJoin, planStatistics } from "#src/kernels/rows/index.js";
import { softmax } from "#src/kernels/softmax/index.js";
import { planApply, planRegisters } from "#src/kernels/softmax/select.js";
import {
  type BufferRegion,
  decode,
  driverOf,
  encode,
  findDawn,
  mostScratch,
  noise,
  portable,
  random,
  rounded,
  spacing,
  withDevice,
} from "./support.js";

type Extents = readonly [outer: number, length: number, inner: number];

/** What a row's elements may be, and how large the error of each may become. */
interface Expected {
  readonly value: number;
  readonly bound: number;
}

/**
 * The formula in f64, row by row. The errors, in units of 2^-24 and to first order: |x - m| from the difference,
 * 4 from the exponential, the same in the mean and 40 at most from the sum, 8 from the last steps.
 */
function reference(
  kind: SoftmaxKind,
  values: ArrayLike<number>,
  [outer, length, inner]: Extents,
): Expected[] {
  const results = new Array<Expected>(outer * length * inner);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const at = (j: number) => (o * length + j) * inner + i;
      let most = Number.NEGATIVE_INFINITY;
      let isSpoilt = false;
      for (let j = 0; j < length; j++) {
        const x = values[at(j)]!;
        isSpoilt ||= Number.isNaN(x) || x === Number.POSITIVE_INFINITY;
        most = Math.max(most, x);
      }
      let [sum, mean] = [0, 0];
      for (let j = 0; j < length; j++) {
        const difference = values[at(j)]! - most;
        sum += Math.exp(difference);
        if (difference > -200) mean -= Math.exp(difference) * difference;
      }
      const common = mean / sum + 52;
      for (let j = 0; j < length; j++) {
        const difference = values[at(j)]! - most;
        const value = kind === "softmax" ? Math.exp(difference) / sum : difference - Math.log(sum);
        const size = difference > -200 ? -difference : 0;
        const bound =
          kind === "softmax" ? value * (size + common) : common + size + Math.abs(Math.max(value, -1e30));
        // A weight below the smallest normal number may be flushed.
        const flushed = kind === "softmax" ? 2 ** -126 : 0;
        results[at(j)] = { value: isSpoilt ? Number.NaN : value, bound: bound * 2 ** -24 + flushed };
      }
    }
  return results;
}

/** Rows of different spreads and heights, some with -Infinity among them. */
function samples([outer, length, inner]: Extents, dtype: FloatType): Float32Array {
  const next = random(length * 7 + inner);
  const values = Float32Array.from({ length: outer * length * inner }, (_, at) => {
    const row = Math.floor(at / inner / length) * inner + (at % inner);
    if (next() < 0.05 && row % 3 === 1 && Math.floor(at / inner) % length > 0)
      return Number.NEGATIVE_INFINITY;
    const spread = [4, 30, 1, 200][row % 4]!;
    return (next() - 0.5) * spread + [0, 500, -900][row % 3]!;
  });
  return rounded(values, dtype);
}

function check(
  results: ArrayLike<number>,
  expected: readonly Expected[],
  dtype: FloatType,
  label: string,
): void {
  for (const [i, { value, bound }] of expected.entries()) {
    const got = results[i]!;
    if (Object.is(got, value) || got === value) continue;
    const storage = dtype === "f16" ? Math.max(0.5001 * spacing(value, "f16"), 2 ** -25) : 0;
    if (!(Math.abs(got - value) <= bound + storage))
      assert.fail(`${label}: element ${i} of ${expected.length} is ${got}, not ${value}`);
  }
}

/** A comparison by assertions would take ten times as long as the kernels. */
function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

interface SoftmaxCall {
  readonly kind: SoftmaxKind;
  readonly dtype: FloatType;
  readonly extents: Extents;
  readonly values: Float32Array;
  /** Elements in front of the output. */
  readonly before?: number;
  readonly inPlace?: boolean;
}

/** Makes a call along the middle axis, and looks at every byte. */
async function checkCall(
  backend: ComputeBackend,
  { kind, dtype, extents, values, before = 1, inPlace = false }: SoftmaxCall,
): Promise<void> {
  const elements = encode(values, dtype);
  const start = before * dtypeBytes[dtype];
  const end = start + elements.length;
  const image = noise(end + 37);
  if (inPlace) image.set(elements, start);
  const [handle, from] = [backend.alloc(image.length), backend.alloc(elements.length)];
  backend.copyHtoD(handle, image);
  backend.copyHtoD(from, elements);
  const output = { handle, byteOffset: start };
  backend.softmax({ kind, shape: extents, axis: 1, dtype, input: inPlace ? output : from, output });
  const bytes = new Uint8Array(image.length);
  await backend.copyDtoH(bytes, handle);
  for (const used of [handle, from]) backend.free(used);
  check(
    decode(bytes.subarray(start, end), dtype),
    reference(kind, values, extents),
    dtype,
    `${kind} of [${extents}]`,
  );
  image.set(bytes.subarray(start, end), start);
  assert.isTrue(sameBytes(bytes, image), "a byte outside the output has changed");
}

const shapes: readonly Extents[] = [
  // Along the last axis: what few and many invocations hold, with loads of one element and of vectors.
  ...[1, 2, 3, 4, 5, 8, 16, 63, 64, 65].map((length): Extents => [70, length, 1]),
  ...[255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097].map((length): Extents => [3, length, 1]),
  ...([
    [2, 8191, 1],
    [2, 8193, 1],
    [1, 16_384, 1],
    [2, 16_385, 1],
    [1, 16_388, 1],
    [2, 70_000, 1],
  ] as const),
  ...([
    [1, 70_001, 1],
    [900, 7, 1],
    [1, 150_000, 1],
  ] as const),
  // Along others.
  ...([
    [1, 1, 9],
    [4, 1, 64],
    [3, 5, 2],
    [7, 3, 3],
    [2, 31, 15],
    [2, 33, 16],
    [1, 64, 40],
    [3, 9, 17],
  ] as const),
  ...([
    [1, 129, 33],
    [1, 300, 64],
    [2, 512, 18],
    [1, 513, 18],
    [2, 200, 516],
    [1, 1024, 20],
    [1, 1025, 4],
  ] as const),
  ...([
    [2, 1100, 24],
    [1, 5000, 3],
    [1, 2000, 68],
    [9, 2, 1000],
    [1, 40, 1001],
    [1, 20_000, 2],
  ] as const),
];

describe("webgpu softmax", () => {
  const device = withDevice();

  async function run(
    kind: SoftmaxKind,
    dtype: FloatType,
    [outer, length, inner]: Extents,
    values: Float32Array,
    place: { readonly offset?: number; readonly outputOffset?: number; readonly inPlace?: boolean } = {},
  ): Promise<Float32Array> {
    const { offset = 0, outputOffset = offset, inPlace = false } = place;
    const size = dtypeBytes[dtype];
    const byteOffset = outputOffset * size;
    const byteLength = values.length * size;
    const before = noise(byteOffset + byteLength + 32);
    if (inPlace) before.set(encode(values, dtype), byteOffset);
    const memory = device().upload(before);
    const output = { memory, byteOffset, byteLength };
    const input = inPlace ? output : device().place(values, dtype, offset * size);
    device().run("softmax", { dtype, kind, outer, length, inner, input, output });
    const after = await device().download(memory, 0, before.length);
    const results = decode(after.subarray(byteOffset, byteOffset + byteLength), dtype);
    after.set(before.subarray(byteOffset, byteOffset + byteLength), byteOffset);
    assert.isTrue(sameBytes(after, before), "other bytes changed");
    if (!inPlace) {
      const kept = await device().download(input.memory, input.byteOffset, byteLength);
      assert.isTrue(sameBytes(kept, encode(values, dtype)), "the input changed");
      device().driver.free(input.memory);
    }
    device().driver.free(memory);
    return results;
  }

  for (const dtype of floatTypes)
    for (const shape of shapes)
      it(`of [${shape}] in ${dtype}, at whole vectors and elsewhere, beside its input and in place`, async () => {
        const values = samples(shape, dtype);
        for (const [i, kind] of softmaxKinds.entries()) {
          const expected = reference(kind, values, shape);
          for (const offset of [0, 1]) {
            const inPlace = (offset + i) % 2 === 1;
            const results = await run(kind, dtype, shape, values, { offset, inPlace });
            check(results, expected, dtype, `${kind} at ${offset}${inPlace ? " in place" : ""}`);
          }
        }
      });

  for (const dtype of floatTypes)
    it(`holds long columns of ${dtype} in half of the registers where there are many`, async () => {
      const shape = [1, 130, 16_384] as const;
      const values = samples(shape, dtype);
      values[5 * 16_384 + 7] = Number.NaN;
      values[129 * 16_384 + 8] = Number.POSITIVE_INFINITY;
      const results = await run("softmax", dtype, shape, values);
      check(results, reference("softmax", values, shape), dtype, "columns");
    });

  for (const dtype of floatTypes)
    it(`reads and writes ${dtype} at places that differ`, async () => {
      for (const shape of [
        [3, 64, 1],
        [2, 20, 32],
        [1, 9000, 3],
        [2, 33, 1],
      ] as const)
        for (const [offset, outputOffset] of [
          [0, 1],
          [1, 0],
          [2, 4],
          [3, 2],
          [4, 8],
        ] as const) {
          const values = samples(shape, dtype);
          const results = await run("softmax", dtype, shape, values, { offset, outputOffset });
          check(
            results,
            reference("softmax", values, shape),
            dtype,
            `[${shape}] from ${offset} to ${outputOffset}`,
          );
        }
    });

  /** One of each kind of kernel. */
  const kernels: readonly Extents[] = [
    ...([
      [9, 40, 1],
      [9, 41, 1],
      [9, 3001, 1],
      [9, 20_001, 1],
      [2, 100_000, 1],
    ] as const),
    ...([
      [2, 40, 20],
      [2, 41, 19],
      [1, 3000, 20],
      [1, 3001, 19],
    ] as const),
  ];

  for (const dtype of floatTypes)
    it(`makes rows of ${dtype} NaN for a NaN, +Infinity, or nothing but -Infinity, and leaves others alone`, async () => {
      const above = Number.POSITIVE_INFINITY;
      for (const shape of kernels)
        for (const kind of softmaxKinds) {
          const [outer, length, inner] = shape;
          const values = samples(shape, dtype);
          const at = (row: number, j: number) =>
            (Math.floor(row / inner) * length + j) * inner + (row % inner);
          const rows = outer * inner;
          values[at(0, length - 1)] = Number.NaN;
          for (let j = 0; j < length; j++) values[at(rows - 1, j)] = -above;
          if (rows > 4) {
            values[at(2, length >> 1)] = above;
            values[at(3, 0)] = -Number.NaN;
          }
          const results = await run(kind, dtype, shape, values);
          check(results, reference(kind, values, shape), dtype, `${kind} of [${shape}]`);
        }
    });

  it("tells a NaN whose sign is set, which no comparison of whole numbers puts at the top", async () => {
    const shape = [1, 40, 1] as const;
    const values = samples(shape, "f32");
    const input = device().place(values, "f32");
    device().driver.write(input.memory, 28, new Uint8Array(Uint32Array.of(0xffc00001).buffer));
    const output = device().place(values, "f32");
    device().run("softmax", { dtype: "f32", kind: "softmax", outer: 1, length: 40, inner: 1, input, output });
    for (const result of await device().numbers(output, "f32")) assert.isNaN(result);
  });

  it("takes the extremes of f32", async () => {
    const largest = (2 - 2 ** -23) * 2 ** 127;
    for (const [values, softmax, logSoftmax] of [
      [
        [largest, -largest, largest],
        [0.5, 0, 0.5],
        [-Math.LN2, Number.NEGATIVE_INFINITY, -Math.LN2],
      ],
      [[-largest, -largest, -largest, -largest], [0.25, 0.25, 0.25, 0.25], new Array(4).fill(-2 * Math.LN2)],
      [
        [-largest, Number.NEGATIVE_INFINITY],
        [1, 0],
        [0, Number.NEGATIVE_INFINITY],
      ],
      [
        [1e30, 1e30 - 1e24],
        [1, 0],
        [0, Math.fround(1e30 - 1e24) - Math.fround(1e30)],
      ],
      [[3e38], [1], [0]],
    ] as const) {
      const shape = [1, values.length, 1] as const;
      for (const [kind, expected] of [
        ["softmax", softmax],
        ["logSoftmax", logSoftmax],
      ] as const) {
        const results = await run(kind, "f32", shape, Float32Array.from(values));
        for (const [i, value] of expected.entries())
          assert.isTrue(
            results[i] === value || Math.abs(results[i]! - value) <= 2e-7 * Math.abs(value),
            `${kind} of ${values}: ${results}`,
          );
      }
    }
  });

  it("gives the same bits every time", async () => {
    for (const shape of [
      [3, 999, 1],
      [1, 100_000, 1],
      [1, 3000, 20],
    ] as const) {
      const values = samples(shape, "f32");
      const results = [];
      for (let i = 0; i < 3; i++)
        results.push(encode(await run("softmax", "f32", shape, values), "f32").join());
      assert.equal(new Set(results).size, 1);
    }
  });
});

describe("webgpu softmax in grids of two dimensions", () => {
  let backend: ComputeBackend;
  before(async () => {
    const limits = { maxComputeWorkgroupsPerDimension: 29 };
    backend = createBackend(driverOf(findDawn, { limits }));
    await backend.init();
  });
  after(() => backend.dispose());

  for (const dtype of floatTypes)
    it(`minds workgroups too many in ${dtype}`, async () => {
      // Programs with more workgroups than one dimension has start up to a row of them too many.
      for (const extents of [
        ...([
          [600, 65, 1],
          [700, 64, 1],
          [150, 255, 1],
          [2, 5000, 17],
          [1, 700, 68],
          [1, 30_001, 1],
        ] as const),
      ])
        for (const kind of softmaxKinds) {
          const values = samples(extents, dtype);
          await checkCall(backend, { kind, dtype, extents, values });
        }
    });
});

describe("webgpu softmax plans", () => {
  const shapeOf = ([outer, length, inner]: Extents, dtype: FloatType = "f32", offset = 0) => ({
    ...{ dtype, outer, length, inner },
    ...{ inputOffset: offset * dtypeBytes[dtype], outputOffset: offset * dtypeBytes[dtype] },
  });
  const registers = (...given: Parameters<typeof shapeOf>) => {
    const plan = planRegisters(shapeOf(...given));
    return plan && `${plan.along} ${plan.vector} ${plan.lanes}x${plan.values}`;
  };

  it("keep rows in registers up to what a workgroup holds", () => {
    assert.equal(registers([2 ** 20, 64, 1]), "length 4 4x4");
    assert.equal(registers([16_384, 4096, 1]), "length 4 256x4");
    assert.equal(registers([16_384, 4096, 1], "f16"), "length 4 64x16");
    assert.equal(registers([16_384, 4096, 1], "f32", 1), "length 1 256x16");
    assert.equal(registers([64, 16_384, 1]), "length 4 256x16");
    assert.equal(registers([64, 16_388, 1]), undefined);
    assert.equal(registers([64, 8191, 1]), "length 1 256x32");
    assert.equal(registers([64, 8193, 1]), undefined);
    assert.equal(registers([9, 4, 1]), "length 4 1x1");
    assert.equal(registers([2 ** 20, 8, 64]), "inner 4 1x8");
    assert.equal(registers([32, 128, 4096]), "inner 4 16x8");
    assert.equal(registers([64, 256, 4096]), "inner 4 32x8");
    assert.equal(registers([64, 256, 4096], "f16"), "inner 2 16x16");
    assert.equal(registers([64, 128, 4096], "f16"), "inner 4 16x8");
    assert.equal(registers([1, 1024, 4096]), "inner 4 64x16");
    assert.equal(registers([1, 1025, 4096]), undefined);
    assert.equal(registers([1, 512, 4097]), "inner 1 16x32");
    assert.equal(registers([1, 3, 5]), "inner 1 1x4");
  });

  it("leave rows of f16 that share words to passes that do not", () => {
    assert.equal(registers([9, 63, 1], "f16"), undefined);
    assert.equal(registers([9, 62, 1], "f16"), "length 2 16x2");
    assert.equal(registers([9, 64, 1], "f16", 1), undefined);
    assert.equal(registers([9, 64, 1], "f16", 2), "length 2 16x2");
    assert.equal(registers([9, 5, 62], "f16"), "inner 2 4x2");
    assert.equal(registers([9, 5, 63], "f16"), undefined);
  });

  it("have an invocation, a load and a place for every element", () => {
    for (const dtype of floatTypes)
      for (const offset of [0, 1, 2])
        for (const extents of shapes) {
          const shape = shapeOf(extents, dtype, offset);
          const [outer, length, inner] = extents;
          const count = outer * length * inner;
          const plan = planRegisters(shape);
          if (plan !== undefined) {
            assert.equal(plan.rows * plan.length * plan.vector, count);
            assert.isAtLeast(plan.lanes * plan.values, plan.length);
            assert.isAtLeast((plan.workgroups * 256) / plan.lanes, plan.rows);
          }
          const pass = planStatistics(dtype, { outer, length, inner }, [shape.inputOffset]);
          assert.equal(pass.rows * pass.length * pass.vector, count);
          assert.isAtLeast(pass.segments * pass.segmentLength, pass.length);
          assert.isBelow((pass.segments - 1) * pass.segmentLength, pass.length);
          assert.isAtLeast((pass.rowBlocks * 256) / pass.lanes, pass.rows);
          const { form, vector, workgroups } = planApply(shape);
          const each = form !== "flat" ? 8 * vector : dtype === "f16" && vector === 1 ? 2 : vector;
          assert.isAtLeast(workgroups * 256 * each, count);
        }
  });

  it("ask for no more scratch than is looked for before", () => {
    let most = 0;
    for (const dtype of floatTypes)
      for (const offset of [0, 1])
        for (const [outer, length, inner] of [
          ...shapes,
          ...([
            [64, 2 ** 20, 1],
            [1, 2 ** 26, 1],
            [1, 4096, 16_384],
            [3, 2 ** 20, 5],
            [2 ** 20, 3, 5],
            [2 ** 22, 1, 1],
          ] as const),
        ]) {
          const region = (memory: object) => ({
            memory: memory as BufferRegion["memory"],
            byteOffset: offset * dtypeBytes[dtype],
            byteLength: outer * length * inner * dtypeBytes[dtype],
          });
          const problem = { dtype, kind: "softmax", outer, length, inner } as const;
          const operands = { input: region({}), output: region({}) };
          const asked = mostScratch(softmax, portable, { ...problem, ...operands });
          const { scratchBound } = softmax.segments({} as never);
          assert.isAtMost(asked, scratchBound({ ...problem, ...operands }, 0), `[${[outer, length, inner]}]`);
          most = Math.max(most, asked);
        }
    assert.isAbove(most, 0);
  });

  it("cut few long rows into segments, and no more than are allowed", () => {
    const plan = (extents: Extents, most?: number) => {
      const [outer, length, inner] = extents;
      return planStatistics("f32", { outer, length, inner }, [0], most);
    };
    assert.equal(plan([64, 2 ** 20, 1]).segments, 64);
    assert.equal(plan([1, 2 ** 28, 1]).segments, 4096);
    assert.equal(plan([4096, 2 ** 16, 1]).segments, 1);
    assert.equal(plan([1, 4096, 16_384]).segments, 64);
    assert.equal(plan([1, 4096, 16_384], 3).segments, 3);
    assert.equal(plan([1, 100, 16_384]).segments, 1);
    assert.deepInclude(planJoin(64, 64), { segments: 1, length: 64, lanes: 4 });
    assert.deepInclude(planJoin(1, 4096), { segments: 1, length: 4096, lanes: 256 });
  });
});

/** Bytes that a binding may show: no multiple of 256, of which windows are made. */
const LIMIT = 4200;

describe("webgpu softmax above the binding limit", () => {
  let backend: ComputeBackend;
  before(async () => {
    backend = createBackend(driverOf(findDawn, { limits: { maxStorageBufferBindingSize: LIMIT } }));
    await backend.init();
  });
  after(() => backend.dispose());

  for (const dtype of floatTypes)
    for (const extents of [
      ...([
        [40, 70, 1],
        [11, 33, 9],
        [3, 1500, 1],
        [1, 9001, 1],
        [2, 5000, 1],
      ] as const),
      ...([
        [1, 700, 70],
        [2, 300, 20],
        [1, 7, 1100],
        [1, 3, 5000],
        [1, 2600, 3],
        [5000, 1, 1],
      ] as const),
    ])
      it(`of [${extents}] in ${dtype}, beside its input and in place`, async () => {
        const values = samples(extents, dtype);
        for (const [i, kind] of softmaxKinds.entries())
          await checkCall(backend, { kind, dtype, extents, values, before: [3, 8][i]!, inPlace: i === 1 });
      });
});
