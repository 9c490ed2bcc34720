import { type FloatType, floatTypes, type NormalizeKind, normalizeKinds } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import {
  alignedPlacement,
  dataSeed,
  distribution,
  extent,
  oddPlacement,
  placement,
} from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, roundTo } from "../../data.js";
import { given } from "../../kit/arguments.js";
import { check as expect, refuses } from "../../kit/checks.js";
import { kindLaw } from "../../kit/kind-law.js";
import { computeAll, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { epsilon as eps } from "../../tolerance.js";
import { collect, executeAll, measure, type Placement } from "../../workspace.js";
import { longSumError, type NormalizeInputs, normalize, normalizeTolerance, sumError } from "./formula.js";

interface NormalizeCase {
  readonly kind: NormalizeKind;
  readonly rows: number;
  readonly size: number;
  readonly weight: boolean;
  readonly bias: boolean;
  /** Whether the statistics are stored. */
  readonly statistics: boolean;
  /** Null: not given. */
  readonly epsilon: number | null;
  readonly data: Distribution;
  readonly placement: Placement;
  readonly seed: number;
}

function caseOf(
  plain: Pick<NormalizeCase, "kind" | "rows" | "size"> & Partial<NormalizeCase>,
): NormalizeCase {
  return {
    ...{ weight: true, bias: true, statistics: true, epsilon: null },
    ...{ data: "normal", placement: alignedPlacement, seed: 1, ...plain },
  };
}

/** Rows that share a workgroup, that fill one, that are cut into parts; and f16 rows that share words. */
const largeShapes: readonly Pick<NormalizeCase, "rows" | "size">[] = [
  { rows: 70, size: 64 },
  { rows: 3, size: 4096 },
  { rows: 2, size: 20_000 },
  { rows: 33, size: 257 },
  { rows: 1, size: 70_001 },
  { rows: 5, size: 1028 },
  { rows: 2500, size: 3 },
  { rows: 2, size: 16_388 },
];

/** Elements that one random case may have. */
const work = 2 ** 13;

function cases(
  kinds: readonly NormalizeKind[],
  places: Arbitrary<Placement> = placement,
): Arbitrary<NormalizeCase> {
  return fc
    .record({ rows: fc.oneof(extent(9), extent()), size: extent() })
    .filter(({ rows, size }) => rows * size <= work)
    .chain((extents) =>
      fc.record({
        ...{ rows: fc.constant(extents.rows), size: fc.constant(extents.size) },
        kind: fc.constantFrom(...kinds),
        // Not every combination, each of which may take kernels of its own: the laws below have others.
        given: fc.constantFrom(
          { weight: false, bias: false, statistics: false },
          ...[
            { weight: true, bias: true },
            { weight: true, bias: false },
            { weight: false, bias: true },
          ].map((factors) => ({ ...factors, statistics: true })),
        ),
        epsilon: fc.constantFrom(null, 2 ** -4, 1),
        ...{ data: distribution, placement: places, seed: dataSeed },
      }),
    )
    .map(({ given, ...others }) => ({ ...others, ...given }));
}

function inputsOf(
  value: NormalizeCase,
  dtype: FloatType,
): NormalizeInputs & { readonly input: Float64Array } {
  const { rows, size, data, seed } = value;
  return {
    input: draw(data, rows * size, seed, dtype),
    weight: value.weight ? draw("normal", size, seed + 1, dtype) : undefined,
    bias: value.bias ? draw("normal", size, seed + 2, dtype) : undefined,
  };
}

/** Runs a case, and returns what it stores; everything around the outputs must stay as it is. */
async function run(
  { backend }: Pick<LawContext, "backend">,
  dtype: FloatType,
  { kind, rows, size, statistics, epsilon, placement }: NormalizeCase,
  { input, weight, bias }: NormalizeInputs,
): Promise<Readonly<Record<string, Float64Array>>> {
  const poison = (count: number) => new Float64Array(count).fill(Number.NaN);
  const stored = statistics ? (kind === "layer" ? ["mean", "inverseDeviation"] : ["inverseDeviation"]) : [];
  const perRow = Object.fromEntries(stored.map((name) => [name, poison(rows)]));
  const operands: Record<string, Float64Array> = {
    ...{ input, output: poison(rows * size), ...perRow },
    ...(weight === undefined ? {} : { weight }),
    ...(bias === undefined ? {} : { bias }),
  };
  const all = (count: number) => Array.from({ length: count }, (_, i) => i);
  const results = await executeAll<string>({
    ...{ backend, dtype, placement, operands },
    dtypes: { mean: "f32", inverseDeviation: "f32" },
    written: {
      output: all(rows * size),
      ...Object.fromEntries(stored.map((name) => [name, all(rows)])),
    },
    call: (slices) =>
      backend.normalize({
        ...{ ...(slices as { input: never; output: never }), kind, rows, size },
        ...(epsilon === null ? {} : { epsilon }),
        ...given(dtype),
      }),
  });
  return results as Readonly<Record<string, Float64Array>>;
}

/** Compares every output of a case with the formula. */
async function check(
  context: LawContext,
  dtype: FloatType,
  value: NormalizeCase,
  inputs: NormalizeInputs = inputsOf(value, dtype),
  sumErrorOf: (n: number) => number = sumError,
): Promise<void> {
  const shape = { ...value, epsilon: Math.fround(value.epsilon ?? 1e-5) };
  const got = await run(context, dtype, value, inputs);
  for (const [name, stored] of Object.entries(got)) {
    const expected = collect((emit) => normalize(shape, inputs, { [name]: emit }, sumErrorOf));
    const tolerance = normalizeTolerance(name === "output" ? dtype : "f32", context.numerics);
    try {
      measure(context, [value.size, value.rows], stored, expected, tolerance);
    } catch (error) {
      if (name !== "output" && error instanceof Error) error.message = `${name}: ${error.message}`;
      throw error;
    }
  }
}

/** How far rows are from 0; elements are halves up to 8 from there, which is exact. */
const heights: Readonly<Record<FloatType, number>> = { f32: 2 ** 12, f16: 2 ** 9 };

/** Rows far above 0, far below it, and at it, by turns. */
function shifted({ rows, size, seed }: NormalizeCase, dtype: FloatType): Float64Array {
  return drawIntegers(16, rows * size, seed).map(
    (x, at) => x / 2 + ((Math.floor(at / size) % 3) - 1) * heights[dtype],
  );
}

/** One element of each row that is not 0: the last, the first, one in the middle, and so on. */
function spikes({ rows, size }: NormalizeCase): Float64Array {
  const input = new Float64Array(rows * size);
  for (let row = 0; row < rows; row++) {
    const places = [size - 1, 0, size >> 1, size - 2, (row * 37) % size];
    input[row * size + Math.max(places[row % places.length]!, 0)] = 64;
  }
  return input;
}

/** Elements of a long row. */
const long = 2 ** 18 + 4;

/** Equal squares, or deviations of equal squares from a mean of about 0.1: sums lose the same part each time. */
function alike({ kind, rows, size }: NormalizeCase, dtype: FloatType): Float64Array {
  const [low, high] = [roundTo(dtype, 0.1), roundTo(dtype, kind === "layer" ? 0.1037 : -0.1)];
  return new Float64Array(rows * size).map((_, at) => (at % 2 === 0 ? low : high));
}

export const normalizeLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = kindLaw<NormalizeKind>("normalize", dtype);
  const ofEach = (name: string, run: (context: LawContext, kind: NormalizeKind) => Promise<void>) =>
    normalizeKinds.map((kind) => law(`${kind}: ${name}`, kind, (context) => run(context, kind)));
  return [
    ...ofEach("stays within the error bound", (context, kind) =>
      context.forAll(cases([kind]), (value) => check(context, dtype, value)),
    ),
    ...ofEach("counts every element on larger shapes", (context, kind) =>
      context.forEach(
        largeShapes,
        async (plain) => {
          const value = caseOf({ kind, ...plain });
          await check(context, dtype, value);
          await check(context, dtype, value, { ...inputsOf(value, dtype), input: spikes(value) });
        },
        { quick: 5 },
      ),
    ),
    law("layer: rounds nothing but the mean of a row far from 0", "layer", (context) =>
      context.forEach(
        [
          { rows: 40, size: 68 },
          { rows: 3, size: 33_000 },
        ],
        (plain) => {
          const value = caseOf({ kind: "layer", ...plain });
          return check(context, dtype, value, { ...inputsOf(value, dtype), input: shifted(value, dtype) });
        },
      ),
    ),
    ...ofEach("stays accurate over many elements", (context, kind) => {
      const value = caseOf({ kind, rows: 1, size: long, weight: false, bias: false });
      return check(context, dtype, value, { input: alike(value, dtype) }, longSumError);
    }),
    law("layer: gives exactly the bias for rows of equal elements", "layer", (context) =>
      context.forEach(
        [
          { rows: 9, size: 1 },
          { rows: 5, size: 33 },
          { rows: 3, size: 19_999 },
        ],
        async (plain) => {
          const value = caseOf({ kind: "layer", ...plain });
          const { rows, size } = value;
          const levels = draw("normal", rows, 5, dtype);
          const input = new Float64Array(rows * size).map((_, at) => levels[Math.floor(at / size)]!);
          const { weight, bias } = inputsOf(value, dtype);
          const got = await run(context, dtype, value, { input, weight, bias });
          for (const [at, y] of got.output!.entries())
            expect(
              y === bias![at % size],
              `row of ${input[at]}: element ${at} is ${y}, not ${bias![at % size]}`,
            );
          for (const [row, mean] of got.mean!.entries())
            expect(mean === levels[row], `the mean of ${levels[row]} alone is ${mean}`);
        },
      ),
    ),
    law("layer: divides exact sums of whole numbers for the mean", "layer", (context) =>
      context.forEach([64, 2 ** 15], async (size) => {
        const value = caseOf({ kind: "layer", rows: 6, size });
        const input = drawIntegers(8, value.rows * size, 3);
        const { mean } = await run(context, dtype, value, { ...inputsOf(value, dtype), input });
        for (let row = 0; row < value.rows; row++) {
          const exact = input.subarray(row * size, (row + 1) * size).reduce((a, b) => a + b, 0) / size;
          // What WGSL grants a division, and a rounding.
          expect(
            Math.abs(mean![row]! - exact) <= 3.5 * eps * Math.abs(exact),
            `the mean of row ${row} of ${size} is ${mean![row]}, not ${exact}`,
          );
        }
      }),
    ),
    ...ofEach("gives the same bits for twice the input without epsilon", (context, kind) =>
      context.forEach([67, 20_000], async (size) => {
        const value = caseOf({ kind, rows: 3, size, epsilon: 0 });
        const inputs = inputsOf(value, dtype);
        // Large enough for squares in f32 to stay normal.
        const input = inputs.input.map((x) => 8 * x);
        const once = await run(context, dtype, value, { ...inputs, input });
        const twice = await run(context, dtype, value, { ...inputs, input: input.map((x) => 2 * x) });
        expectSame("of twice the input", [...twice.output!], [...once.output!]);
      }),
    ),
    ...ofEach("takes ones and zeros for a weight and a bias that are missing", (context, kind) =>
      context.forEach([61], async (size) => {
        const value = caseOf({ kind, rows: 2, size });
        const { input } = inputsOf(value, dtype);
        const ones = new Float64Array(size).fill(1);
        const zeros = new Float64Array(size);
        const plain = await run(context, dtype, { ...value, statistics: false }, { input });
        for (const inputs of [{ weight: ones }, { bias: zeros }, { weight: ones, bias: zeros }]) {
          const got = await run(context, dtype, value, { input, ...inputs });
          // Either zero will do.
          const values = (list: Float64Array) => [...list].map((y) => y + 0);
          const what = `with ${Object.keys(inputs).join(" and ")}`;
          expectSame(what, values(got.output!), values(plain.output!));
        }
      }),
    ),
    law("touches nothing but the elements of its outputs", undefined, (context) => {
      const kinds = normalizeKinds.filter((kind) => context.backend.supports("normalize", { dtype, kind }));
      return context.forAll(cases(kinds, oddPlacement), (value) => check(context, dtype, value));
    }),
    law("layer: refuses statistics that overlap, or that do not exist", "layer", refusesStatistics(dtype)),
  ];
}

function refusesStatistics(dtype: FloatType): Law["run"] {
  return async ({ backend }) => {
    const handle = backend.alloc(1024);
    const at = (byteOffset: number) => ({ handle, byteOffset });
    const [rows, size] = [4, 8];
    const places = { input: at(0), output: at(128), weight: at(256), bias: at(320) };
    const call = (change: object) =>
      backend.normalize({ kind: "layer", rows, size, ...places, dtype, ...change });
    try {
      for (const name of ["mean", "inverseDeviation"])
        for (const [what, other] of Object.entries(places))
          refuses("INVALID_ARGUMENT", `${name} over ${what}`, () =>
            call({ [name]: at(other.byteOffset + 4) }),
          );
      const apart = { mean: at(512), inverseDeviation: at(512 + 4 * rows) };
      refuses("INVALID_ARGUMENT", "statistics over each other", () =>
        call({ ...apart, inverseDeviation: at(512 + 4 * rows - 4) }),
      );
      refuses("INVALID_ARGUMENT", "statistics of rows without elements", () => call({ ...apart, size: 0 }));
      if (backend.supports("normalize", { dtype, kind: "rms" }))
        refuses("INVALID_ARGUMENT", "a mean of rms", () => call({ ...apart, kind: "rms" }));
      call(apart);
    } finally {
      backend.free(handle);
    }
  };
}

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Laws on numbers that not every backend keeps: NaN and infinities. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const spoils = async ({ backend }: LawContext, kind: NormalizeKind, value: number): Promise<void> => {
    if (!backend.supports("normalize", { dtype, kind })) return;
    for (const [size, place] of [
      [5, 4],
      [41, 0],
      [20_000, 9999],
    ] as const) {
      const rows = 3;
      const input = Array.from({ length: rows * size }, (_, i) => (i % 3) - 1);
      const outputs = { output: rows * size };
      const run = (x: readonly number[]) =>
        computeAll(backend, dtype, { input: x }, outputs, (places) =>
          backend.normalize({ kind, rows, size, ...(places as { input: never; output: never }), dtype }),
        );
      const clean = (await run(input)).output!;
      const dirty = (await run(input.with(size + place, value))).output!;
      const expected = clean.map((y, i) => (Math.floor(i / size) === 1 ? nan : y));
      expectSame(`${kind} with ${value} at ${place} of row 1 of ${size}`, dirty, expected);
    }
  };
  return [
    numericsLaw(
      dtype,
      "normalize",
      "makes a row with a NaN NaN, and no other",
      kept("nan"),
      async (context) => {
        for (const kind of normalizeKinds) await spoils(context, kind, nan);
      },
    ),
    numericsLaw(
      dtype,
      "normalize",
      "has no result of layer for a row with an infinity",
      kept("infinity"),
      async (context) => {
        for (const value of [infinity, -infinity]) await spoils(context, "layer", value);
      },
    ),
  ];
}
