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
import { expectSame } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { epsilon as eps, exact } from "../../tolerance.js";
import { collect, executeAll, measure, type Placement } from "../../workspace.js";
import { longSumError, normalize, sumError } from "../normalize/formula.js";
import { type NormalizeGradientInputs, normalizeGradient, normalizeGradientTolerance } from "./formula.js";

type Gradient = "inputGradient" | "weightGradient" | "biasGradient";

const gradients: readonly Gradient[] = ["inputGradient", "weightGradient", "biasGradient"];

interface GradientCase {
  readonly kind: NormalizeKind;
  readonly rows: number;
  readonly size: number;
  readonly weight: boolean;
  /** Whether the statistics are given. */
  readonly statistics: boolean;
  readonly wanted: readonly Gradient[];
  readonly accumulate: boolean;
  /** Null: not given. */
  readonly epsilon: number | null;
  readonly data: Distribution;
  readonly placement: Placement;
  readonly seed: number;
}

function caseOf(plain: Pick<GradientCase, "kind" | "rows" | "size"> & Partial<GradientCase>): GradientCase {
  return {
    ...{ weight: true, statistics: true, wanted: gradients, accumulate: false, epsilon: null },
    ...{ data: "normal", placement: alignedPlacement, seed: 1, ...plain },
  };
}

/** Rows that share a workgroup, that fill one, that are cut into parts; f16 rows that share words; and many rows. */
const largeShapes: readonly (Pick<GradientCase, "rows" | "size"> & Partial<GradientCase>)[] = [
  { rows: 700, size: 64 },
  { rows: 40, size: 4096, statistics: false },
  { rows: 3, size: 20_000 },
  { rows: 300, size: 257, statistics: false },
  { rows: 2500, size: 3 },
  { rows: 2, size: 16_388, statistics: false },
  { rows: 70, size: 4100, wanted: ["weightGradient"] },
  { rows: 1, size: 70_001, wanted: ["inputGradient"] },
];

/** Elements that one random case may have. */
const work = 2 ** 13;

/** Not every combination, each of which may take kernels of its own. */
const forms: readonly Pick<GradientCase, "weight" | "statistics" | "wanted" | "accumulate">[] = [
  { weight: true, statistics: true, wanted: gradients, accumulate: false },
  { weight: true, statistics: false, wanted: gradients, accumulate: true },
  { weight: false, statistics: true, wanted: ["inputGradient"], accumulate: false },
  { weight: true, statistics: true, wanted: ["weightGradient", "biasGradient"], accumulate: true },
  { weight: false, statistics: false, wanted: ["biasGradient"], accumulate: false },
];

function cases(
  kinds: readonly NormalizeKind[],
  places: Arbitrary<Placement> = placement,
): Arbitrary<GradientCase> {
  return fc
    .record({ rows: fc.oneof(extent(9), extent()), size: extent() })
    .filter(({ rows, size }) => rows * size <= work)
    .chain((extents) =>
      fc.record({
        ...{ rows: fc.constant(extents.rows), size: fc.constant(extents.size) },
        kind: fc.constantFrom(...kinds),
        form: fc.constantFrom(...forms),
        epsilon: fc.constantFrom(null, 2 ** -4, 1),
        ...{ data: distribution, placement: places, seed: dataSeed },
      }),
    )
    .map(({ form, ...others }) => ({ ...others, ...form }));
}

function epsilonOf({ epsilon }: Pick<GradientCase, "epsilon">): number {
  return Math.fround(epsilon ?? 1e-5);
}

/** As normalize would store them, but for its own rounding errors. */
function statisticsOf(
  value: GradientCase,
  input: Float64Array,
): Pick<NormalizeGradientInputs, "mean" | "inverseDeviation"> {
  const { kind, rows, size } = value;
  const [mean, inverseDeviation] = [new Float64Array(rows), new Float64Array(rows)];
  const into = (list: Float64Array) => (row: number, own: number) => {
    list[row] = Math.fround(own);
  };
  normalize(
    { kind, rows, size, epsilon: epsilonOf(value) },
    { input },
    { mean: into(mean), inverseDeviation: into(inverseDeviation) },
  );
  return { inverseDeviation, ...(kind === "layer" ? { mean } : {}) };
}

function inputsOf(value: GradientCase, dtype: FloatType): NormalizeGradientInputs {
  const { rows, size, data, seed, wanted, accumulate } = value;
  const input = draw(data, rows * size, seed, dtype);
  const before = (name: Gradient, more: number) =>
    accumulate && wanted.includes(name) ? { [name]: draw("normal", size, seed + more, dtype) } : {};
  return {
    input,
    outputGradient: draw("normal", rows * size, seed + 1, dtype),
    weight: value.weight ? draw("normal", size, seed + 2, dtype) : undefined,
    ...(value.statistics ? statisticsOf(value, input) : {}),
    ...{ ...before("weightGradient", 3), ...before("biasGradient", 4) },
  };
}

type Results = Readonly<Partial<Record<Gradient, Float64Array>>>;

/** Runs a case, and returns what it writes; everything around the outputs must stay as it is. */
async function run(
  { backend }: Pick<LawContext, "backend">,
  dtype: FloatType,
  { kind, rows, size, wanted, accumulate, epsilon, placement }: GradientCase,
  inputs: NormalizeGradientInputs,
): Promise<Results> {
  const counts = { inputGradient: rows * size, weightGradient: size, biasGradient: size };
  const outputs = wanted.map((name): [Gradient, Float64Array] => {
    const before = name === "inputGradient" ? undefined : inputs[name];
    return [name, before ?? new Float64Array(counts[name]).fill(Number.NaN)];
  });
  const reads = Object.entries(inputs).filter(
    ([name, values]) => values !== undefined && !gradients.includes(name as Gradient),
  );
  const operands: Record<string, Float64Array> = Object.fromEntries([...reads, ...outputs]);
  return (await executeAll<string>({
    ...{ backend, dtype, placement, operands },
    dtypes: { mean: "f32", inverseDeviation: "f32" },
    written: Object.fromEntries(outputs.map(([name, values]) => [name, Array.from(values.keys())])),
    call: (slices) =>
      backend.normalizeGradient({
        ...{ ...(slices as { input: never; outputGradient: never }), kind, rows, size },
        ...(accumulate ? { accumulate } : {}),
        ...(epsilon === null ? {} : { epsilon }),
        ...given(dtype),
      }),
  })) as Results;
}

/** Compares every output of a case with the formula. */
async function check(
  context: LawContext,
  dtype: FloatType,
  value: GradientCase,
  inputs: NormalizeGradientInputs = inputsOf(value, dtype),
  sumErrorOf: (n: number) => number = sumError,
): Promise<void> {
  const got = await run(context, dtype, value, inputs);
  const shape = { ...value, epsilon: epsilonOf(value) };
  const tolerance = normalizeGradientTolerance(value, dtype, context.numerics);
  for (const name of value.wanted) {
    const expected = collect((emit) => normalizeGradient(shape, inputs, { [name]: emit }, sumErrorOf));
    named(name, () => measure(context, [value.size, value.rows], got[name]!, expected, tolerance));
  }
}

/** Says in an error which gradient is wrong. */
function named(name: Gradient, compare: () => void): void {
  try {
    compare();
  } catch (error) {
    if (error instanceof Error) error.message = `${name}: ${error.message}`;
    throw error;
  }
}

/** Whole numbers, with whole means and powers of two as inverse deviations, of which all sums over rows are whole. */
function wholeNumbers({ kind, rows, size, seed, wanted, accumulate }: GradientCase): NormalizeGradientInputs {
  const before = (name: Gradient) =>
    accumulate && wanted.includes(name) ? { [name]: drawIntegers(9, size, seed + 3) } : {};
  return {
    input: drawIntegers(2, rows * size, seed),
    outputGradient: drawIntegers(1, rows * size, seed + 1),
    inverseDeviation: new Float64Array(rows).map((_, row) => 2 ** (row % 2)),
    ...(kind === "layer" ? { mean: new Float64Array(rows).map((_, row) => (row % 3) - 1) } : {}),
    ...{ ...before("weightGradient"), ...before("biasGradient") },
  };
}

const sums: readonly Gradient[] = ["weightGradient", "biasGradient"];

/** Shapes on both sides of the thresholds of kernels. */
const telling: readonly Pick<GradientCase, "rows" | "size">[] = [
  { rows: 70, size: 64 },
  { rows: 301, size: 65 },
  { rows: 3, size: 8196 },
  { rows: 2100, size: 5 },
];

/** Elements of a long row, and rows of a long column. */
const long = 2 ** 17 + 3;

export const normalizeGradientLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = kindLaw<NormalizeKind>("normalizeGradient", dtype);
  const ofEach = (name: string, run: (context: LawContext, kind: NormalizeKind) => Promise<void>) =>
    normalizeKinds.map((kind) => law(`${kind}: ${name}`, kind, (context) => run(context, kind)));
  return [
    ...ofEach("stays within the error bound", (context, kind) =>
      context.forAll(cases([kind]), (value) => check(context, dtype, value)),
    ),
    ...ofEach("counts every element on larger shapes", (context, kind) =>
      context.forEach(largeShapes, (plain) => check(context, dtype, caseOf({ kind, ...plain })), {
        quick: 5,
      }),
    ),
    ...ofEach("adds up whole numbers exactly", (context, kind) =>
      context.forEach(
        telling,
        async (plain) => {
          const value = caseOf({ kind, ...plain, weight: false, wanted: sums, accumulate: true });
          const inputs = wholeNumbers(value);
          const got = await run(context, dtype, value, inputs);
          for (const name of sums) {
            const expected = collect((emit) =>
              normalizeGradient({ ...value, epsilon: 0 }, inputs, { [name]: emit }),
            );
            named(name, () => measure(context, [value.size, value.rows], got[name]!, expected, exact(dtype)));
          }
        },
        { quick: 2 },
      ),
    ),
    ...ofEach("adds up the sums of parts of the rows to those of all", async (context, kind) => {
      const [rows, size, first] = [67, 36, 30];
      const whole = caseOf({ kind, rows, size, weight: false });
      const inputs = wholeNumbers(whole);
      const all = await run(context, dtype, whole, inputs);
      const part = (from: number, to: number, before: Results) => {
        const cut = (list: Float64Array | undefined, each: number) => list?.subarray(from * each, to * each);
        const accumulate = before.weightGradient !== undefined;
        const { mean } = inputs;
        return run(
          context,
          dtype,
          { ...whole, rows: to - from, accumulate },
          {
            input: cut(inputs.input, size)!,
            outputGradient: cut(inputs.outputGradient, size)!,
            inverseDeviation: cut(inputs.inverseDeviation, 1),
            ...(mean === undefined ? {} : { mean: cut(mean, 1) }),
            ...{ weightGradient: before.weightGradient, biasGradient: before.biasGradient },
          },
        );
      };
      const upper = await part(0, first, {});
      const lower = await part(first, rows, upper);
      for (const name of sums) expectSame(name, [...lower[name]!], [...all[name]!]);
      const rest = [...upper.inputGradient!, ...lower.inputGradient!];
      expect(rest.length === rows * size, "parts have as many elements");
    }),
    law("layer: is 0 for an output gradient that is the same for all of a row", "layer", (context) =>
      context.forEach([64, 4096, 2 ** 15], async (size) => {
        const rows = 3;
        const value = caseOf({ kind: "layer", rows, size, weight: false, wanted: ["inputGradient"] });
        // As far above the mean as below it.
        const input = new Float64Array(rows * size).map(
          (_, at) => (at % 2 === 0 ? 1 : -1) * (1 + ((at >> 1) % 3)) + Math.floor(at / size),
        );
        const outputGradient = new Float64Array(rows * size).map((_, at) => 3 - Math.floor(at / size));
        const mean = new Float64Array(rows).map((_, row) => row);
        const inverseDeviation = new Float64Array(rows).fill(0.5);
        const got = await run(context, dtype, value, { input, outputGradient, mean, inverseDeviation });
        // What WGSL grants a division, of numbers up to 3 with half of them left, and a rounding.
        for (const [at, dx] of got.inputGradient!.entries())
          expect(Math.abs(dx) <= 3.5 * eps * 1.5, `element ${at} of rows of ${size} is ${dx}, not 0`);
      }),
    ),
    ...ofEach("is the slope of the forward operation", async (context, kind) => {
      const value = caseOf({ kind, rows: 3, size: 8, epsilon: 1, statistics: false });
      const inputs = inputsOf(value, dtype);
      const got = await run(context, dtype, value, inputs);
      for (const name of gradients) {
        const bound = collect((emit) =>
          normalizeGradient({ ...value, epsilon: 1 }, inputs, { [name]: emit }),
        );
        const values = slopes(value, inputs, name);
        // A sixth of a third derivative, which is below 16 times the sum of |g|, times the square of the step.
        const total = inputs.outputGradient.reduce((sum, dy, at) => {
          return sum + Math.abs(dy * inputs.weight![at % value.size]!) + Math.abs(dy);
        }, 0);
        const ofStep = (step ** 2 * 3 * total) / eps;
        const magnitudes = bound.magnitudes.map((error) => error + ofStep);
        const tolerance = normalizeGradientTolerance(value, dtype, context.numerics);
        named(name, () =>
          measure(context, [value.size, value.rows], got[name]!, { ...bound, values, magnitudes }, tolerance),
        );
      }
    }),
    ...ofEach("has the same bits in a row, whatever the others hold", (context, kind) =>
      context.forEach([67, 128], async (size) => {
        const value = caseOf({ kind, rows: 9, size, statistics: false, wanted: ["inputGradient"] });
        const before = inputsOf(value, dtype);
        const others = inputsOf({ ...value, seed: 99 }, dtype);
        const isOwn = (at: number) => Math.floor(at / size) === 4;
        const mixed = (name: "input" | "outputGradient") =>
          before[name].map((x, at) => (isOwn(at) ? x : others[name][at]!));
        const after = { ...before, input: mixed("input"), outputGradient: mixed("outputGradient") };
        const own = async (inputs: NormalizeGradientInputs) =>
          [...(await run(context, dtype, value, inputs)).inputGradient!].filter((_, at) => isOwn(at));
        expectSame("row 4", await own(after), await own(before));
      }),
    ),
    ...ofEach("stays accurate over many rows and elements", (context, kind) =>
      context.forEach(
        [
          caseOf({ kind, rows: long, size: 2, weight: false, wanted: sums }),
          caseOf({ kind, rows: 1, size: long, weight: false, wanted: ["inputGradient"] }),
        ],
        (value) => check(context, dtype, value, alike(value, dtype), longSumError),
      ),
    ),
    law("touches nothing but the elements of its outputs", undefined, (context) => {
      const kinds = normalizeKinds.filter((kind) =>
        context.backend.supports("normalizeGradient", { dtype, kind }),
      );
      return context.forAll(cases(kinds, oddPlacement), (value) => check(context, dtype, value));
    }),
    law("layer: has sums of 0 for no rows, and leaves them if they are accumulated", "layer", (context) =>
      context.forEach([false, true], async (accumulate) => {
        const value = caseOf({ kind: "layer", rows: 0, size: 7, weight: false, wanted: sums, accumulate });
        const sevens = new Float64Array(7).fill(7);
        const got = await run(context, dtype, value, {
          ...{ input: new Float64Array(0), outputGradient: new Float64Array(0) },
          ...{ weightGradient: sevens, biasGradient: sevens },
        });
        for (const name of sums) expectSame(name, [...got[name]!], new Array(7).fill(accumulate ? 7 : 0));
      }),
    ),
    law(
      "layer: refuses statistics that overlap or stand alone, and a call for nothing",
      "layer",
      refusals(dtype),
    ),
  ];
}

/** The same products everywhere: sums lose the same part each time. */
function alike({ kind, rows, size }: GradientCase, dtype: FloatType): NormalizeGradientInputs {
  const fill = (value: number) => new Float64Array(rows * size).fill(roundTo(dtype, value));
  return {
    ...{ input: fill(0.1), outputGradient: fill(0.1) },
    inverseDeviation: new Float64Array(rows).fill(1),
    ...(kind === "layer" ? { mean: new Float64Array(rows).fill(-0.5) } : {}),
  };
}

/** The step of central differences. */
const step = 2 ** -14;

/** The slope of the sum of gradient times output, by central differences of normalize in f64. */
function slopes(value: GradientCase, inputs: NormalizeGradientInputs, name: Gradient): number[] {
  const { kind, rows, size } = value;
  const shape = { kind, rows, size, epsilon: epsilonOf(value) };
  const at: Record<Gradient, Float64Array> = {
    inputGradient: inputs.input,
    weightGradient: inputs.weight!,
    biasGradient: new Float64Array(size),
  };
  const objective = (changed: Float64Array): number => {
    const all = { ...at, [name]: changed };
    let sum = 0;
    normalize(
      shape,
      { input: all.inputGradient, weight: all.weightGradient, bias: all.biasGradient },
      {
        output: (place, y) => {
          sum += inputs.outputGradient[place]! * y;
        },
      },
    );
    return sum;
  };
  return [...at[name]].map(
    (x, i) => (objective(at[name].with(i, x + step)) - objective(at[name].with(i, x - step))) / (2 * step),
  );
}

function refusals(dtype: FloatType): Law["run"] {
  return async ({ backend }) => {
    const handle = backend.alloc(2048);
    const at = (byteOffset: number) => ({ handle, byteOffset });
    const [rows, size] = [4, 8];
    const reads = { input: at(0), outputGradient: at(128), weight: at(256) };
    const statistics = { mean: at(320), inverseDeviation: at(384) };
    const writes = { inputGradient: at(448), weightGradient: at(640), biasGradient: at(704) };
    const all = { ...reads, ...statistics, ...writes };
    const call = (change: object) =>
      backend.normalizeGradient({ kind: "layer", rows, size, ...all, dtype, ...change });
    try {
      for (const [output, { byteOffset }] of Object.entries(writes))
        for (const name of Object.keys(all))
          if (name !== output)
            refuses("INVALID_ARGUMENT", `${output} over ${name}`, () => call({ [name]: at(byteOffset + 4) }));
      for (const name of Object.keys(statistics))
        refuses("INVALID_ARGUMENT", `layer without ${name}`, () => call({ [name]: undefined }));
      const nothing = Object.fromEntries(Object.keys(writes).map((name) => [name, undefined]));
      refuses("INVALID_HANDLE", "no gradient at all", () => call(nothing));
      if (backend.supports("normalizeGradient", { dtype, kind: "rms" }))
        refuses("INVALID_ARGUMENT", "a mean of rms", () => call({ kind: "rms" }));
      call({});
    } finally {
      backend.free(handle);
    }
  };
}
