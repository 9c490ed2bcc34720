import { type DType, dtypeBytes, type GatherType, gatherTypes } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, extent, fixedPlacement, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { random } from "../../data.js";
import { encoded } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { bytesOf, pattern, sameBytes, withAllocations } from "../../kit/checks.js";
import { product } from "../../kit/shapes.js";
import type { Law, LawContext } from "../../law.js";
import { execute, measure, type Placement } from "../../workspace.js";

/** Extents before, along and after the axis. Those before and after it may be several. */
interface Extents {
  readonly outer: readonly number[];
  readonly length: number;
  readonly count: number;
  readonly inner: readonly number[];
  /** Whether indices follow the axes before and after theirs. */
  readonly perOuter: boolean;
  readonly perInner: boolean;
}

/** `inside`: all in range. `mixed`: a third is out of range. `outside`: all. `alike`: all the same, in range. */
type Choice = "inside" | "mixed" | "outside" | "alike";

interface GatherCase extends Extents {
  readonly choice: Choice;
  readonly placement: Placement;
  readonly seed: number;
}

/** Elements that one random case may have. */
const work = 2 ** 13;

function cases(places: Arbitrary<Placement> = placement): Arbitrary<GatherCase> {
  const few = fc.array(extent(9), { maxLength: 2 });
  return fc
    .record({
      outer: few,
      length: fc.oneof(extent(9), extent()),
      count: fc.oneof(extent(9), extent()),
      inner: fc.oneof(few, fc.array(extent(), { minLength: 1, maxLength: 2 })),
      perOuter: fc.boolean(),
      perInner: fc.boolean(),
      choice: fc.constantFrom<Choice>("inside", "mixed", "mixed", "alike"),
      placement: places,
      seed: dataSeed,
    })
    .filter(
      ({ outer, length, count, inner }) => product([...outer, Math.max(length, count), ...inner]) <= work,
    );
}

const plain: GatherCase = {
  ...{ outer: [], length: 1, count: 1, inner: [], perOuter: false, perInner: false },
  ...{ choice: "mixed", placement: fixedPlacement, seed: 1 },
};

/**
 * Rows around vectors, words and what chunks of threads or invocations take; rows longer than those; tables longer than 16
 * bits count; elements one by one.
 */
const largeCases: readonly GatherCase[] = [
  { ...plain, length: 70_001, count: 500, inner: [3] },
  { ...plain, outer: [3], length: 65, count: 131, inner: [64], perOuter: true },
  { ...plain, outer: [2], length: 30, count: 40, inner: [257], perInner: true },
  { ...plain, length: 3, count: 5, inner: [20_001] },
  { ...plain, outer: [40], length: 129, count: 1023, perOuter: true },
  { ...plain, outer: [2, 3], length: 7, count: 300, inner: [4, 12] },
  { ...plain, outer: [2], length: 9, count: 700, inner: [31], perOuter: true, perInner: true },
  { ...plain, length: 100_003, count: 100_003 },
  { ...plain, length: 2, count: 3, inner: [80_000], choice: "inside" },
];

/** Numbers other than 0 that the type holds exactly, hardly any of them twice. */
function numbers(count: number, seed: number, dtype: GatherType): Float64Array<ArrayBuffer> {
  const next = random(seed);
  const { low, high } = ranges[dtype];
  return Float64Array.from({ length: count }, () => low + Math.floor(next() * (high - low)) || 1);
}

const ranges: Readonly<Record<GatherType, { readonly low: number; readonly high: number }>> = {
  f32: { low: -(2 ** 23), high: 2 ** 23 },
  f16: { low: -2048, high: 2049 },
  i32: { low: -(2 ** 31), high: 2 ** 31 },
  u32: { low: 1, high: 2 ** 32 },
  u8: { low: 1, high: 256 },
};

/** Indices just past the ends of the axis, one axis further, and at the ends of i32. */
function outOfRange(length: number): readonly number[] {
  return [-1, length, -length, length + 1, -(2 ** 31), 2 ** 31 - 1];
}

function drawIndices(count: number, { length, choice, seed }: GatherCase): Float64Array<ArrayBuffer> {
  const next = random(seed + 1);
  const outside = outOfRange(length);
  const one = Math.floor(next() * length);
  const pick = {
    inside: () => Math.floor(next() * length),
    outside: () => outside[Math.floor(next() * outside.length)]!,
    alike: () => one,
    mixed: () => (next() < 0.33 ? pick.outside() : pick.inside()),
  };
  return Float64Array.from({ length: count }, pick[choice]);
}

/** The arguments but the operands. */
function argumentsFor({ outer, length, count, inner, perOuter, perInner }: Extents) {
  const ones = (extents: readonly number[]) => extents.map(() => 1);
  return {
    shape: [...outer, length, ...inner],
    axis: outer.length,
    indexShape: [...(perOuter ? outer : ones(outer)), count, ...(perInner ? inner : ones(inner))],
  };
}

/** The result, computed independently of the code under test. */
function expectedOf(value: Extents, input: Float64Array, indices: Float64Array): readonly number[] {
  const { length, count, perOuter, perInner } = value;
  const [outer, inner] = [product(value.outer), product(value.inner)];
  return Array.from({ length: outer * count * inner }, (_, at) => {
    const i = at % inner;
    const j = Math.floor(at / inner) % count;
    const o = Math.floor(at / inner / count);
    const index = indices[((perOuter ? o : 0) * count + j) * (perInner ? inner : 1) + (perInner ? i : 0)]!;
    return index < 0 || index >= length ? 0 : input[(o * length + index) * inner + i]!;
  });
}

async function check(context: LawContext, dtype: GatherType, value: GatherCase): Promise<void> {
  const { backend } = context;
  const rest = argumentsFor(value);
  const input = numbers(product(rest.shape), value.seed, dtype);
  // Nothing may be read if every index is out of range.
  if (value.choice === "outside") input.fill(Number.NaN);
  const indices = drawIndices(product(rest.indexShape), value);
  const values = expectedOf(value, input, indices);
  const places = Array.from(values, (_, i) => i);
  const got = await execute({
    ...{ backend, dtype, placement: value.placement, output: "output", written: places },
    dtypes: { indices: "i32" },
    operands: { input, indices, output: new Float64Array(values.length).fill(Number.NaN) },
    call: (slices) => backend.gather({ ...rest, ...slices, ...given(dtype) }),
  });
  const extents = [value.perInner ? 1 : product(value.inner), values.length];
  measure(context, extents, got, { places, values, magnitudes: values.map(() => 0) }, () => 0);
}

/** Makes calls on bytes, one after the other, each on the result of the last one; returns the last result. */
async function chain(
  { backend }: LawContext,
  dtype: GatherType,
  input: Uint8Array<ArrayBuffer>,
  calls: readonly { readonly extents: Extents; readonly indices: ArrayLike<number> }[],
): Promise<Uint8Array<ArrayBuffer>> {
  let bytes = input;
  for (const { extents, indices } of calls) {
    const { outer, count, inner } = extents;
    const words = encoded(indices, "i32");
    const size = product([...outer, count, ...inner]) * dtypeBytes[dtype];
    await withAllocations(backend, [bytes.length, words.length, size], async (from, by, to) => {
      backend.copyHtoD(from, bytes);
      backend.copyHtoD(by, words);
      backend.gather({ ...argumentsFor(extents), input: from, indices: by, output: to, ...given(dtype) });
      bytes = await bytesOf(backend, to, size);
    });
  }
  return bytes;
}

/** A random order of the first whole numbers, and the order that undoes it. */
function permutation(count: number, seed: number): readonly [readonly number[], readonly number[]] {
  const next = random(seed);
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = Math.floor(next() * (i + 1));
    [order[i], order[other]] = [order[other]!, order[i]!];
  }
  const inverse = new Array<number>(count);
  for (const [i, place] of order.entries()) inverse[place] = i;
  return [order, inverse];
}

/** Rows of each kind: of whole vectors, of whole words, of neither, of one element. */
const rows: readonly Pick<Extents, "outer" | "length" | "inner">[] = [
  { outer: [3], length: 40, inner: [64] },
  { outer: [2], length: 33, inner: [12] },
  { outer: [3], length: 21, inner: [7] },
  { outer: [5], length: 130, inner: [] },
];

/** Bit patterns of numbers that arithmetic might change: NaN of all kinds, -0, the smallest numbers. */
const awkward: Readonly<Record<number, readonly number[]>> = {
  1: [0x00, 0xff, 0x80, 0x7f],
  2: [0x7c01, 0xfe55, 0x7dff, 0xffff, 0x8000, 0x0001, 0x83ff, 0x7c00],
  4: [0x7f800001, 0xffc12345, 0x7fbfffff, 0xffffffff, 0x80000000, 0x00000001, 0x807fffff, 0x7f800000],
};

function awkwardBytes(count: number, dtype: DType): Uint8Array<ArrayBuffer> {
  const size = dtypeBytes[dtype];
  const patterns = awkward[size]!;
  const bytes = new Uint8Array(count * size);
  for (let i = 0; i < count; i++) {
    const bits = patterns[i % patterns.length]!;
    for (let byte = 0; byte < size; byte++) bytes[i * size + byte] = bits >>> (8 * byte);
  }
  return bytes;
}

export const gatherLaws: readonly Law[] = gatherTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: GatherType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "gather", name, operation: "gather", dtype, run },
    exempt: (_capabilities, backend) =>
      backend.supports("gather", { dtype }) ? undefined : `gather in ${dtype} is not supported`,
  });
  return [
    law("brings the element of each index, and 0 for those out of range", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, value), { runs: 2 }),
    ),
    law("brings them in larger shapes", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value), { quick: 6 }),
    ),
    law("gives nothing but zeros for indices out of range, wherever they are", (context) =>
      context.forEach(
        rows.flatMap(({ outer, length, inner }) =>
          [false, true].map(
            (perInner): GatherCase => ({
              ...{ ...plain, outer, length, inner, count: 5, perOuter: true, perInner, choice: "outside" },
              placement: { before: [3, 1, 5, 2], shared: true },
            }),
          ),
        ),
        (value) => check(context, dtype, value),
      ),
    ),
    law("leaves its input as it is by identity, and by a permutation and its inverse", (context) =>
      context.forEach(rows, async (given) => {
        const extents: Extents = { ...given, count: given.length, perOuter: false, perInner: false };
        const { outer, length, inner } = given;
        const input = pattern(product([...outer, length, ...inner]) * dtypeBytes[dtype], length);
        const identity = Array.from({ length }, (_, i) => i);
        const by = (indices: readonly number[]) => ({ extents, indices });
        sameBytes(await chain(context, dtype, input, [by(identity)]), input, "by identity");
        const orders = permutation(length, 7);
        sameBytes(await chain(context, dtype, input, orders.map(by)), input, "there and back");
      }),
    ),
    law("repeats indices as if they were written out", (context) =>
      context.forEach(rows, async (given) => {
        const { outer, length, inner } = given;
        const count = 9;
        const input = pattern(product([...outer, length, ...inner]) * dtypeBytes[dtype], length);
        const indices = drawIndices(count, { ...plain, length });
        const [repeats, size] = [product(outer), product(inner)];
        const few: Extents = { ...given, count, perOuter: false, perInner: false };
        const expected = await chain(context, dtype, input, [{ extents: few, indices }]);
        for (const [perOuter, perInner] of [
          [true, false],
          [false, true],
          [true, true],
        ] as const) {
          const across = perInner ? size : 1;
          const written = Float64Array.from(
            { length: (perOuter ? repeats : 1) * count * across },
            (_, i) => indices[Math.floor(i / across) % count]!,
          );
          const extents = { ...few, perOuter, perInner };
          const what = `indices written out ${perOuter ? "before" : ""} ${perInner ? "after" : ""} the axis`;
          sameBytes(await chain(context, dtype, input, [{ extents, indices: written }]), expected, what);
        }
      }),
    ),
    law("keeps the bits of every element, of any NaN too", (context) =>
      context.forEach(rows, async (given) => {
        const { outer, length, inner } = given;
        const size = dtypeBytes[dtype];
        const rowBytes = product(inner) * size;
        const input = awkwardBytes(product([...outer, length, ...inner]), dtype);
        const extents: Extents = { ...given, count: length, perOuter: false, perInner: false };
        const indices = Array.from({ length }, (_, i) => (3 * i + 1) % length);
        const expected = new Uint8Array(input.length);
        for (let row = 0; row < input.length / rowBytes; row++) {
          const from = (Math.floor(row / length) * length + indices[row % length]!) * rowBytes;
          expected.set(input.subarray(from, from + rowBytes), row * rowBytes);
        }
        sameBytes(await chain(context, dtype, input, [{ extents, indices }]), expected, "the elements' bits");
      }),
    ),
    law("touches nothing but the elements of its output", (context) =>
      context.forAll(cases(oddPlacement), (value) => check(context, dtype, value)),
    ),
  ];
}
