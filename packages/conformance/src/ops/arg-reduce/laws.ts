import {
  type ArgReduceKind,
  argReduceKinds,
  elementTypes,
  type FloatType,
  floatTypes,
  type IntegerType,
  integerTypes,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import {
  axisOf,
  dataSeed,
  fixedPlacement,
  oddPlacement,
  placement,
  shapesUpTo,
} from "../../arbitraries/shapes.js";
import { drawOfAllSizes, extremesOf, random } from "../../data.js";
import { encoded } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { bytesOf } from "../../kit/checks.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { around, product } from "../../kit/shapes.js";
import { expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { collect, execute, measure, type Placement } from "../../workspace.js";
import { argReduce } from "./formula.js";

type ElementType = FloatType | IntegerType;

/**
 * How elements are drawn. `many`: of all sizes. `few`: of the extremes of the type and some between, so that most
 * are equal to others. `peaks`: all equal, but for one or two of each row that are the extremum.
 */
type Data = "many" | "few" | "peaks";

interface ArgReduceCase {
  readonly kind: ArgReduceKind;
  readonly shape: readonly number[];
  /** Null: not given, which means the last. */
  readonly axis: number | null;
  readonly data: Data;
  readonly placement: Placement;
  readonly seed: number;
}

type Plain = Pick<ArgReduceCase, "shape" | "axis">;

/** What kernels may hold at once, or cut, and more; rows that share words; rows that begin anywhere. */
const largeShapes: readonly Plain[] = [
  { shape: [2, 20_000], axis: -1 },
  { shape: [3, 700, 68], axis: 1 },
  { shape: [301, 33], axis: 1 },
  { shape: [1031, 19, 2], axis: 0 },
  { shape: [70_001], axis: null },
  { shape: [5, 1024], axis: null },
  { shape: [5000, 7], axis: 1 },
  { shape: [1, 300, 260], axis: 1 },
  { shape: [33_000, 3], axis: 0 },
  { shape: [2, 3, 5, 1, 129, 2, 1, 17], axis: 4 },
];

/** Kinds and types differ by comparisons alone, and each makes other kernels to compile: one of each meets all shapes. */
function shapesOf(kind: ArgReduceKind, dtype: ElementType): number {
  return kind === "argMax" && elementTypes[dtype].range === undefined ? largeShapes.length : 4;
}

/** Elements that one random case may have. */
const work = 2 ** 13;

function cases(kinds: readonly ArgReduceKind[], places: Arbitrary<Placement>): Arbitrary<ArgReduceCase> {
  return shapesUpTo(work).chain((shape) =>
    fc.record({
      kind: fc.constantFrom(...kinds),
      shape: fc.constant(shape),
      axis: axisOf(shape),
      data: fc.constantFrom<Data[]>("many", "few", "peaks"),
      placement: places,
      seed: dataSeed,
    }),
  );
}

function elements(value: ArgReduceCase, dtype: ElementType): Float64Array {
  const { kind, shape, data, seed } = value;
  const next = random(seed);
  const few = extremesOf(dtype);
  const pick = () => few[Math.floor(next() * few.length)]!;
  const count = product(shape);
  if (data === "few") return new Float64Array(count).map(pick);
  if (data === "peaks") {
    const { outer, length, inner } = around(value);
    const all = new Float64Array(count).fill(few[3]!);
    const extremum = kind === "argMax" ? few[4]! : few[0]!;
    for (let row = 0; row < outer * inner; row++)
      for (const place of [next(), next()]) {
        const j = Math.floor(place * length);
        all[(Math.floor(row / inner) * length + j) * inner + (row % inner)] = extremum;
      }
    return all;
  }
  return drawOfAllSizes(dtype, count, seed);
}

async function check(
  context: LawContext,
  dtype: ElementType,
  value: ArgReduceCase,
  input: Float64Array = elements(value, dtype),
): Promise<Float64Array> {
  const { kind, shape, axis } = value;
  const { outer, length, inner } = around(value);
  const expected = collect((emit) => argReduce({ kind, outer, length, inner }, input, emit));
  const got = await execute({
    ...{ backend: context.backend, dtype, dtypes: { output: "i32" }, placement: value.placement },
    ...{ output: "output", written: expected.places },
    operands: { input, output: new Float64Array(outer * inner).fill(Number.NaN) },
    call: (slices) =>
      context.backend.argReduce({
        ...{ ...slices, kind, shape },
        ...(axis === null ? {} : { axis }),
        ...given(dtype),
      }),
  });
  measure(context, [length, outer * inner], got, expected, () => 0);
  return got;
}

/** input[argMax] = max, for data whose extrema are neither drawn nor known here. */
function agreement(dtype: ElementType): Law["run"] {
  return async (context) => {
    const { backend } = context;
    for (const [kind, other] of [
      ["argMax", "max"],
      ["argMin", "min"],
    ] as const) {
      if (
        !backend.supports("argReduce", { dtype, kind }) ||
        !backend.supports("reduce", { dtype, kind: other })
      )
        continue;
      const [rows, length] = [11, 777];
      const value = { kind, shape: [rows, length], axis: 1, data: "many", seed: 5 } as const;
      const input = elements({ ...value, placement: fixedPlacement }, dtype);
      const bytes = encoded(input, dtype);
      const [x, places, extrema] = [
        backend.alloc(bytes.length),
        backend.alloc(4 * rows),
        backend.alloc(4 * rows),
      ];
      try {
        backend.copyHtoD(x, bytes);
        backend.argReduce({ kind, shape: [rows, length], input: x, output: places, ...given(dtype) });
        backend.reduce({
          kind: other,
          shape: [rows, length],
          axes: [1],
          input: x,
          output: extrema,
          ...given(dtype),
        });
        const found = new Int32Array((await bytesOf(backend, places, 4 * rows)).buffer);
        const size = elementTypes[dtype].bytes;
        const most = await bytesOf(backend, extrema, size * rows);
        const own = [...found].flatMap((j, row) => {
          const from = (row * length + j) * size;
          return [...bytes.subarray(from, from + size)];
        });
        expectSame(`the elements that ${kind} finds, as bytes`, own, [...most]);
      } finally {
        for (const handle of [x, places, extrema]) backend.free(handle);
      }
    }
  };
}

export const argReduceLaws: readonly Law[] = [...floatTypes, ...integerTypes].flatMap((dtype) =>
  lawsFor(dtype),
);

function lawsFor(dtype: ElementType): readonly Law[] {
  const { having, law } = lawsOnKinds("argReduce", dtype, argReduceKinds);
  return [
    ...argReduceKinds.flatMap((kind) => [
      law(`${kind}: finds the first extremum`, [kind], (context) =>
        context.forAll(cases([kind], placement), async (value) => void (await check(context, dtype, value))),
      ),
      law(`${kind}: finds it on larger shapes`, [kind], (context) =>
        context.forEach(
          largeShapes.slice(0, shapesOf(kind, dtype)).map((plain, seed): ArgReduceCase => {
            const data = seed % 2 === 0 ? "peaks" : "many";
            return { ...plain, kind, data, seed, placement: fixedPlacement };
          }),
          async (value) => void (await check(context, dtype, value)),
          { quick: 4 },
        ),
      ),
      law(`${kind}: finds it at each place`, [kind], (context) =>
        context.forEach(
          eachPlace.slice(0, shapesOf(kind, dtype)).map(({ length, axis }) => ({
            ...{ kind, axis, data: "peaks" as const, seed: length, placement: fixedPlacement },
            shape: axis === 0 ? [length, placesIn(length).length] : [placesIn(length).length, length],
          })),
          async (value) => void (await check(context, dtype, value, diagonal(value, dtype))),
          { quick: 4 },
        ),
      ),
    ]),
    law("takes the first place if all elements are equal", argReduceKinds, (context) =>
      context.forEach(
        having(context).flatMap((kind) =>
          [
            { shape: [7, 40], axis: 1 },
            { shape: [700, 20], axis: 0 },
          ].map((plain) => ({
            ...{ ...plain, kind, data: "peaks" as const, seed: 0, placement: fixedPlacement },
          })),
        ),
        async (value) => {
          // The least and the largest number of the type: a search cannot begin with one beyond them.
          for (const x of extremesOf(dtype).filter((_, i, { length }) => i === 0 || i === length - 1)) {
            const input = new Float64Array(product(value.shape)).fill(x);
            const got = await check(context, dtype, value, input);
            if (got.some((place) => place !== 0)) throw new Error(`of equal elements ${got} are found`);
          }
        },
      ),
    ),
    ...floatTypes
      .filter((type) => type === dtype)
      .map((type) =>
        law("takes zeros of either sign as equal", argReduceKinds, (context) =>
          expectEqualZeros(context, type),
        ),
      ),
    law("finds elements that are what reduce finds", argReduceKinds, agreement(dtype)),
    law("touches nothing but the elements of its output", argReduceKinds, (context) =>
      context.forAll(
        cases(having(context), oddPlacement),
        async (value) => void (await check(context, dtype, value)),
      ),
    ),
  ];
}

const eachPlace = [
  { length: 65, axis: 1 },
  { length: 35, axis: 0 },
  { length: 1030, axis: 1 },
  { length: 5000, axis: 0 },
  { length: 20_000, axis: 1 },
] as const;

/** All places of short rows; of longer ones those around the parts into which they may be cut. */
function placesIn(length: number): readonly number[] {
  if (length <= 129) return Array.from({ length }, (_, j) => j);
  const cuts = [4, 64, 256, 1024, 4096, 8192, 16_384, length >> 1, length];
  const places = new Set(cuts.flatMap((cut) => [cut - 1, cut, cut + 1]).filter((j) => j < length));
  return [0, 1, ...places];
}

/** The extremum of row r is at the r-th of `placesIn`. */
function diagonal(value: ArgReduceCase, dtype: ElementType): Float64Array {
  const { outer, length, inner } = around(value);
  const few = extremesOf(dtype);
  const [others, extremum] = value.kind === "argMax" ? [few[0]!, few[1]!] : [few.at(-1)!, few.at(-2)!];
  const input = new Float64Array(outer * length * inner).fill(others);
  for (const [row, j] of placesIn(length).entries())
    input[(Math.floor(row / inner) * length + j) * inner + (row % inner)] = extremum;
  return input;
}

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** The bits of elements. */
const wordArrays = { f32: Uint32Array, f16: Uint16Array } as const satisfies Readonly<
  Record<FloatType, unknown>
>;

/** NaN of either sign, quiet and not, of the least and the largest fraction. */
const notNumbers: Readonly<Record<FloatType, readonly number[]>> = {
  f32: [0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff],
  f16: [0x7e00, 0xfe00, 0x7c01, 0xffff],
};

/**
 * Checks the place that is found in each of some rows, along the last axis and along the first. A NaN in a row
 * becomes one of `notNumbers` in turn.
 */
async function expectPlaces(
  { backend }: Pick<LawContext, "backend">,
  dtype: FloatType,
  kind: ArgReduceKind,
  rows: readonly (readonly number[])[],
  expected: readonly number[],
): Promise<void> {
  if (!backend.supports("argReduce", { dtype, kind })) return;
  const length = rows[0]!.length;
  for (const axis of [1, 0]) {
    const shape = axis === 1 ? [rows.length, length] : [length, rows.length];
    const values = Array.from({ length: rows.length * length }, (_, at) =>
      axis === 1
        ? rows[Math.floor(at / length)]![at % length]!
        : rows[at % rows.length]![Math.floor(at / rows.length)]!,
    );
    const bytes = encoded(values, dtype);
    const words = new wordArrays[dtype](bytes.buffer);
    let met = 0;
    for (const [at, x] of values.entries()) if (Number.isNaN(x)) words[at] = notNumbers[dtype][met++ % 4]!;
    const [input, output] = [backend.alloc(bytes.length), backend.alloc(4 * rows.length)];
    try {
      backend.copyHtoD(input, bytes);
      backend.argReduce({ kind, shape, axis, input, output, ...given(dtype) });
      const got = new Int32Array((await bytesOf(backend, output, 4 * rows.length)).buffer);
      expectSame(`${kind} of rows of ${length} along axis ${axis}`, [...got], expected);
    } finally {
      backend.free(input);
      backend.free(output);
    }
  }
}

/** Whatever a backend makes of the sign of zeros, it is not part of a comparison. */
async function expectEqualZeros(context: LawContext, dtype: FloatType): Promise<void> {
  const zeros = [
    [0, -0, 0, -0, -0],
    [-0, 0, 0, -0, 0],
  ];
  await expectPlaces(context, dtype, "argMax", [...zeros, [-1, -0, 0, 0, -0]], [0, 0, 1]);
  await expectPlaces(context, dtype, "argMin", [...zeros, [1, 0, -0, -0, 0]], [0, 0, 1]);
}

/** Laws on NaN and infinities, which not every backend keeps. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const special = (name: string, promise: Parameters<typeof numericsLaw>[3], run: Law["run"]) =>
    numericsLaw(dtype, "argReduce", name, promise, run);
  return [
    special("finds the first NaN", kept("nan"), async (context) => {
      for (const length of [5, 40, 1501]) {
        const base = Array.from({ length }, (_, j) => (j % 7) - 3);
        const places = [0, 1, length >> 1, length - 2, length - 1];
        // A NaN alone, one with others after it, and beside infinities.
        const rows = [
          ...places.map((j) => base.with(j, nan)),
          ...places.map((j) => base.map((x, at) => (at >= j ? nan : x))),
          ...places.map((j) => base.map((_, at) => (at === j ? nan : at % 2 === 0 ? infinity : -infinity))),
        ];
        for (const kind of argReduceKinds)
          await expectPlaces(context, dtype, kind, rows, [...places, ...places, ...places]);
      }
    }),
    special("takes infinities", kept("infinity"), async (context) => {
      const rows = [
        [-infinity, -infinity, -infinity, -infinity, -infinity],
        [infinity, infinity, infinity, infinity, infinity],
        [0, -infinity, infinity, -infinity, infinity],
        [infinity, 1, 2, -infinity, -infinity],
        [-infinity, 1, 2, infinity, infinity],
      ];
      await expectPlaces(context, dtype, "argMax", rows, [0, 0, 2, 0, 3]);
      await expectPlaces(context, dtype, "argMin", rows, [0, 0, 1, 3, 0]);
    }),
  ];
}
