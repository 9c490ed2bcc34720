import { type ComputeBackend, type DType, dtypeBytes, dtypes } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, extent } from "../../arbitraries/shapes.js";
import { encoded } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { bytesOf, pattern, sameBytes, withAllocations } from "../../kit/checks.js";
import { contiguousStrides, product } from "../../kit/shapes.js";
import type { Law, LawContext } from "../../law.js";
import { converted, forEachPlace } from "./formula.js";
import { cornerElements, everyElement, numberOf } from "./values.js";

interface CopyCase {
  readonly shape: readonly number[];
  /** Null: not given, which means contiguous. */
  readonly inputStrides: readonly number[] | null;
  readonly outputStrides: readonly number[] | null;
  /** Elements before the first place of the input, and of the output. */
  readonly before: readonly [input: number, output: number];
  readonly seed: number;
}

type Plain = Pick<CopyCase, "shape"> & Partial<CopyCase>;

function copyCase(plain: Plain): CopyCase {
  return { inputStrides: null, outputStrides: null, before: [1, 3], seed: 1, ...plain };
}

/** Elements from the lowest place to the highest, and those before element [0, ..., 0]. */
function reach(shape: readonly number[], strides: readonly number[]) {
  const steps = shape.map((extent, i) => Math.max(extent - 1, 0) * strides[i]!);
  const before = steps.reduce((sum, step) => (step < 0 ? sum - step : sum), 0);
  const after = steps.reduce((sum, step) => (step > 0 ? sum + step : sum), 0);
  return { before, count: before + 1 + after };
}

/** Elements that must stay as they are, after the last place of the output. */
const guard = 9;

/** Makes the call among other bytes, and compares every byte of the output's allocation. */
async function check(
  { backend, observe }: LawContext,
  { shape, inputStrides, outputStrides, before, seed }: CopyCase,
  [dtype, outputDtype]: readonly [DType, DType],
  elements?: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const [size, outputSize] = [dtypeBytes[dtype], dtypeBytes[outputDtype]];
  const from = inputStrides ?? contiguousStrides(shape);
  const to = outputStrides ?? contiguousStrides(shape);
  const read = reach(shape, from);
  const written = reach(shape, to);
  const source = pattern((before[0] + read.count) * size, seed);
  if (elements !== undefined) source.set(elements.subarray(0, read.count * size), before[0] * size);
  const image = pattern((before[1] + written.count + guard) * outputSize, seed + 1);
  await withAllocations(backend, [source.length, image.length], async (input, output) => {
    backend.copyHtoD(input, source);
    backend.copyHtoD(output, image);
    backend.copy({
      shape,
      input: { handle: input, byteOffset: (before[0] + read.before) * size },
      output: { handle: output, byteOffset: (before[1] + written.before) * outputSize },
      ...(inputStrides === null ? {} : { inputStrides }),
      ...(outputStrides === null ? {} : { outputStrides }),
      ...given(dtype),
      ...(outputDtype === dtype ? {} : { outputDtype }),
    });
    const got = await bytesOf(backend, output, image.length);
    const places = { shape, inputStrides: from, outputStrides: to, inputStart: before[0] + read.before };
    const first = before[1] + written.before;
    forEachPlace(places, (place, result) => {
      const target = (first + result) * outputSize;
      const expected =
        dtype === outputDtype
          ? source.subarray(place * size, (place + 1) * size)
          : convertedBytes(source, place, [dtype, outputDtype], got.subarray(target, target + outputSize));
      image.set(expected, target);
    });
    const what = dtype === outputDtype ? dtype : `${dtype} as ${outputDtype}`;
    const extents = [product(shape), shape.length];
    try {
      sameBytes(got, image, `${what}, with ${guard} elements after the output`);
    } catch (error) {
      observe(Number.POSITIVE_INFINITY, extents);
      throw error;
    }
    observe(0, extents);
  });
}

/** Returns an element in another type; `got` if both are NaN, which may have any bits. */
function convertedBytes(
  source: Uint8Array<ArrayBuffer>,
  place: number,
  [dtype, outputDtype]: readonly [DType, DType],
  got: Uint8Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> {
  const value = converted(numberOf(source, place, dtype), dtype, outputDtype);
  return Number.isNaN(value) && Number.isNaN(numberOf(got.slice(), 0, outputDtype))
    ? got
    : encoded([value], outputDtype);
}

/** Extents and strides of axes in some order, the last of it moving fastest, with room between places. */
interface Layout {
  readonly order: readonly number[];
  readonly room: readonly number[];
  readonly turned: readonly boolean[];
}

function layout(rank: number): Arbitrary<Layout> {
  const each = <Value>(value: Arbitrary<Value>) => fc.array(value, { minLength: rank, maxLength: rank });
  const axes = Array.from({ length: rank }, (_, axis) => axis);
  return fc.record({
    order: fc.shuffledSubarray(axes, { minLength: rank, maxLength: rank }),
    room: each(fc.constantFrom(0, 0, 0, 1, 3)),
    turned: each(fc.constantFrom(false, false, false, true)),
  });
}

function stridesOf(shape: readonly number[], { order, room, turned }: Layout): readonly number[] {
  const strides = new Array<number>(shape.length);
  let next = 1;
  for (const axis of order.toReversed()) {
    next += room[axis]!;
    strides[axis] = turned[axis] ? -next : next;
    next *= shape[axis]!;
  }
  return strides;
}

/** Elements that one random case may have. */
const work = 2 ** 12;

const shapes: Arbitrary<readonly number[]> = fc
  .oneof(
    fc.array(fc.oneof(extent(5), extent(70)), { maxLength: 4 }),
    fc.array(extent(3), { minLength: 5, maxLength: 8 }),
    fc.array(extent(), { minLength: 2, maxLength: 2 }),
  )
  .filter((shape) => product(shape) <= work);

const cases: Arbitrary<CopyCase> = shapes.chain((shape) => {
  const anywhere = layout(shape.length).map((given) => stridesOf(shape, given));
  const few = fc.array(fc.integer({ min: -3, max: 3 }), { minLength: shape.length, maxLength: shape.length });
  const place = fc.constantFrom(0, 1, 2, 3, 4, 16, 63);
  return fc.record({
    shape: fc.constant(shape),
    inputStrides: fc.oneof(
      { weight: 4, arbitrary: anywhere },
      // Repeated and overlapping places.
      { weight: 1, arbitrary: few },
      { weight: 1, arbitrary: fc.constant(null) },
    ),
    outputStrides: fc.oneof({ weight: 2, arbitrary: anywhere }, { weight: 1, arbitrary: fc.constant(null) }),
    before: fc.tuple(place, place),
    seed: dataSeed,
  });
});

/** Every way in which kernels read and write, near the sizes of their tiles and above them. */
const largerShapes: readonly Plain[] = [
  // Transpositions: of whole tiles, of parts of them, with room in the output, turned.
  { shape: [200, 131], inputStrides: [1, 200] },
  { shape: [3, 64, 128], inputStrides: [8192, 1, 64], before: [0, 0] },
  { shape: [2, 67, 5, 33], inputStrides: [1, 2, 67 * 2 * 33, 67 * 2] },
  { shape: [129, 70], inputStrides: [-1, 131], outputStrides: [71, 1], before: [4, 5] },
  // Rows: slices, steps, flips, repeats, windows, and odd lengths that share words.
  { shape: [77, 301], inputStrides: [305, 1], outputStrides: [307, 1], before: [3, 1] },
  { shape: [21, 1001], inputStrides: [1001, -1] },
  { shape: [40, 3, 129], inputStrides: [0, 1, 0] },
  { shape: [500, 9, 5], inputStrides: [4, 3, 1], before: [0, 2] },
  { shape: [1000, 13], outputStrides: [1, 1000], before: [2, 1] },
  { shape: [41, 500], inputStrides: [1000, 2], outputStrides: [1501, 3] },
  // One long row, from and to places on and off the grid.
  { shape: [300_001], before: [0, 0] },
  { shape: [70_001], before: [1, 2] },
];

/** One of each size: elements of one size are moved alike. */
const sizes: readonly DType[] = ["f32", "f16", "u8"];

/** Elements that are enough for every vector: whole ones from an aligned place, and with one element less a part of one. */
const alignedCount = 1032;

export const copyLaws: readonly Law[] = dtypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: DType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "copy", name, operation: "copy", dtype, run },
  });
  const others = dtypes.filter((other) => other !== dtype);
  const converts = (backend: ComputeBackend, outputDtype: DType) =>
    backend.supports("copy", { dtype, outputDtype });
  return [
    law("keeps all bits, and all that lies between and around the results", (context) =>
      context.forAll(cases, (value) => check(context, value, [dtype, dtype], cornerElements(dtype, work)), {
        runs: sizes.includes(dtype) ? 1 : 0.2,
      }),
    ),
    ...(sizes.includes(dtype)
      ? [
          law("does so on larger shapes", (context) =>
            context.forEach(largerShapes, (plain) => check(context, copyCase(plain), [dtype, dtype]), {
              quick: 7,
            }),
          ),
          law("is undone by the opposite strides", undoes(dtype)),
        ]
      : []),
    law("becomes any other type, exactly", (context) =>
      context.forEach(
        // In quick mode every type is read and written both ways.
        [1, 0].flatMap((odd) =>
          others.map((other) => ({
            other,
            isAligned: (dtypes.indexOf(dtype) + dtypes.indexOf(other)) % 2 === odd,
          })),
        ),
        async ({ other, isAligned }) => {
          if (!converts(context.backend, other)) return;
          const count = isAligned ? alignedCount : alignedCount - 1;
          const elements = cornerElements(dtype, count);
          const before = isAligned ? ([0, 0] as const) : ([1, 3] as const);
          await check(context, copyCase({ shape: [count], before }), [dtype, other], elements);
        },
        { quick: others.length },
      ),
    ),
    ...(dtypeBytes[dtype] < 4
      ? [
          law("becomes any other type, exactly, whatever its bits", (context) =>
            context.forEach(
              others,
              async (other) => {
                if (!converts(context.backend, other)) return;
                const elements = everyElement(dtype);
                const shape = [elements.length / dtypeBytes[dtype]];
                await check(context, copyCase({ shape, before: [0, 0] }), [dtype, other], elements);
              },
              { quick: 1 },
            ),
          ),
        ]
      : []),
    law("becomes any other type on the way to other places", (context) =>
      context.forEach(
        // So that in quick mode every type is read and written.
        [...dtypes, ...dtypes].slice(dtypes.indexOf(dtype) + 1, dtypes.indexOf(dtype) + dtypes.length),
        async (other) => {
          if (!converts(context.backend, other)) return;
          for (const plain of [
            { shape: [19, 43], inputStrides: [1, 19], outputStrides: [45, 1] },
            { shape: [21, 5, 3], inputStrides: [15, -3, 1], outputStrides: [45, 9, 3] },
          ])
            await check(context, copyCase(plain), [dtype, other], cornerElements(dtype, 21 * 43));
        },
        { quick: 1 },
      ),
    ),
  ];
}

/** Puts three parts side by side, turns and transposes the whole, and takes the parts out of what that gives. */
function undoes(dtype: DType): Law["run"] {
  return async ({ backend }) => {
    const size = dtypeBytes[dtype];
    const rows = 37;
    const widths = [5, 64, 19];
    const width = widths.reduce((a, b) => a + b);
    const parts = widths.map((columns, i) => pattern(rows * columns * size, i));
    const bytes = rows * width * size;
    await withAllocations(backend, [bytes, bytes, bytes], async (part, whole, turned) => {
      const starts = widths.map((_, i) => widths.slice(0, i).reduce((a, b) => a + b, 0));
      for (const [i, columns] of widths.entries()) {
        backend.copyHtoD(part, parts[i]!);
        backend.copy({
          ...{ shape: [rows, columns], input: part, dtype },
          ...{ output: { handle: whole, byteOffset: starts[i]! * size }, outputStrides: [width, 1] },
        });
      }
      // turned[column, row] = whole[row, width - 1 - column]
      backend.copy({
        ...{ shape: [width, rows], dtype, inputStrides: [-1, width] },
        ...{ input: { handle: whole, byteOffset: (width - 1) * size }, output: turned },
      });
      for (const [i, columns] of widths.entries()) {
        backend.copy({
          ...{ shape: [rows, columns], dtype, output: part },
          input: { handle: turned, byteOffset: (width - 1 - starts[i]!) * rows * size },
          inputStrides: [1, -rows],
        });
        sameBytes(await bytesOf(backend, part, parts[i]!.length), parts[i]!, `part ${i} of ${dtype}`);
      }
    });
  };
}
