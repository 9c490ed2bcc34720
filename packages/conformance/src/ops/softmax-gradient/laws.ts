import { type FloatType, floatTypes, type SoftmaxKind, softmaxKinds } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import {
  alignedPlacement,
  axisOf,
  dataSeed,
  distribution,
  oddPlacement,
  placement,
  shapesUpTo,
} from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, roundTo } from "../../data.js";
import { storages } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { kindLaw } from "../../kit/kind-law.js";
import { around, product } from "../../kit/shapes.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { epsilon as eps, exact } from "../../tolerance.js";
import { collect, type Expected, execute, measure, type Placement } from "../../workspace.js";
import { softmax } from "../softmax/formula.js";
import {
  longSumError,
  type SoftmaxGradientInputs,
  softmaxGradient,
  softmaxGradientTolerance,
} from "./formula.js";

interface GradientCase {
  readonly kind: SoftmaxKind;
  readonly shape: readonly number[];
  /** Null: not given. */
  readonly axis: number | null;
  /** Of the gradient of the output. */
  readonly data: Distribution;
  /** The elements of the input of the forward operation are normally distributed, and this many times as far apart. */
  readonly spread: number;
  readonly placement: Placement;
  readonly seed: number;
}

function caseOf(plain: Pick<GradientCase, "kind" | "shape" | "axis"> & Partial<GradientCase>): GradientCase {
  return { ...{ data: "normal", spread: 2, placement: alignedPlacement, seed: 1 }, ...plain };
}

type Plain = Pick<GradientCase, "shape" | "axis">;

/** Rows that share a workgroup, that fill one, and that are cut into parts; along either axis, with words shared or not. */
const largeShapes: readonly Plain[] = [
  { shape: [70, 64], axis: 1 },
  { shape: [3, 20_000], axis: 1 },
  { shape: [3000, 20], axis: 0 },
  { shape: [33, 257], axis: 1 },
  { shape: [5, 600, 3], axis: 1 },
  { shape: [2, 8196], axis: 1 },
  { shape: [1, 70_001], axis: 1 },
  { shape: [2, 40, 48], axis: 1 },
];

/** Elements that one random case may have. */
const work = 2 ** 13;

function cases(
  kinds: readonly SoftmaxKind[],
  places: Arbitrary<Placement> = placement,
): Arbitrary<GradientCase> {
  return shapesUpTo(work, 3).chain((shape) =>
    fc.record({
      kind: fc.constantFrom(...kinds),
      shape: fc.constant(shape),
      axis: axisOf(shape),
      ...{ data: distribution, spread: fc.constantFrom(1, 4), placement: places, seed: dataSeed },
    }),
  );
}

/** What the forward operation makes of an input, in f64. */
function forward(value: Pick<GradientCase, "kind" | "shape" | "axis">, x: Float64Array): Float64Array {
  const output = new Float64Array(x.length);
  softmax({ kind: value.kind, ...around(value) }, x, (at, y) => {
    output[at] = y;
  });
  return output;
}

/** As the type holds them; what would be subnormal is 0. */
function stored(values: Float64Array, dtype: FloatType): Float64Array {
  const { smallestNormal } = storages[dtype];
  return values.map((value) => (Math.abs(value) < smallestNormal ? 0 : roundTo(dtype, value)));
}

function inputOf({ shape, spread, seed }: GradientCase): Float64Array {
  return draw("normal", product(shape), seed, "f32").map((x) => spread * x);
}

function inputsOf(value: GradientCase, dtype: FloatType): SoftmaxGradientInputs {
  const output = stored(forward(value, inputOf(value)), dtype);
  return { output, outputGradient: draw(value.data, output.length, value.seed + 1, dtype) };
}

/** Runs a case, and returns what it writes; everything around it must stay as it is. */
function run(
  { backend }: Pick<LawContext, "backend">,
  dtype: FloatType,
  { kind, shape, axis, placement }: GradientCase,
  { output, outputGradient }: SoftmaxGradientInputs,
): Promise<Float64Array> {
  return execute({
    ...{ backend, dtype, placement },
    output: "inputGradient",
    written: Array.from(output.keys()),
    operands: { output, outputGradient, inputGradient: new Float64Array(output.length).fill(Number.NaN) },
    call: (slices) =>
      backend.softmaxGradient({
        ...{ ...slices, kind, shape },
        ...(axis === null ? {} : { axis }),
        ...given(dtype),
      }),
  });
}

async function check(
  context: LawContext,
  dtype: FloatType,
  value: GradientCase,
  inputs: SoftmaxGradientInputs = inputsOf(value, dtype),
  sumErrorOf?: (n: number) => number,
): Promise<void> {
  const { outer, length, inner } = around(value);
  const shape = { kind: value.kind, outer, length, inner };
  const expected = collect((emit) => softmaxGradient(shape, inputs, emit, sumErrorOf));
  const got = await run(context, dtype, value, inputs);
  const tolerance = softmaxGradientTolerance(length, dtype, context.numerics);
  measure(context, axesOf(value), got, expected, tolerance);
}

/** For `shapeAxes`. */
function axesOf(value: GradientCase): readonly number[] {
  const { outer, length, inner } = around(value);
  return [length, outer * inner];
}

export const softmaxGradientLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

/** Shapes on both sides of the thresholds of kernels, of few elements. */
const telling: readonly Plain[] = [
  { shape: [40, 68], axis: 1 },
  { shape: [67, 41], axis: 0 },
  { shape: [2, 9000], axis: 1 },
  { shape: [2000, 16], axis: 0 },
];

/** Elements of a long row. */
const long = 2 ** 18 + 4;

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = kindLaw<SoftmaxKind>("softmaxGradient", dtype);
  const ofEach = (name: string, run: (context: LawContext, kind: SoftmaxKind) => Promise<void>) =>
    softmaxKinds.map((kind) => law(`${kind}: ${name}`, kind, (context) => run(context, kind)));
  const forTelling = (
    context: LawContext,
    kind: SoftmaxKind,
    property: (value: GradientCase) => Promise<void>,
  ) => context.forEach(telling, (plain) => property(caseOf({ kind, ...plain })), { quick: 2 });
  return [
    ...ofEach("stays within the error bound", (context, kind) =>
      context.forAll(cases([kind]), (value) => check(context, dtype, value)),
    ),
    ...ofEach("stays within it on larger shapes", (context, kind) =>
      context.forEach(largeShapes, (plain) => check(context, dtype, caseOf({ kind, ...plain })), {
        quick: 4,
      }),
    ),
    law("softmax: is exact on whole numbers", "softmax", (context) =>
      forTelling(context, "softmax", async (value) => {
        const count = product(value.shape);
        const inputs = {
          output: drawIntegers(1, count, value.seed),
          outputGradient: drawIntegers(4, count, value.seed + 1),
        };
        const shape = { kind: value.kind, ...around(value) };
        const expected = collect((emit) => softmaxGradient(shape, inputs, emit));
        measure(context, axesOf(value), await run(context, dtype, value, inputs), expected, exact(dtype));
      }),
    ),
    law("softmax: is 0 for a gradient that is the same for all of a row", "softmax", (context) =>
      forTelling(context, "softmax", async (value) => {
        const inputs = { output: shares(value), outputGradient: levels(value) };
        const got = await run(context, dtype, value, inputs);
        expectSame("of one number", [...got.map((x) => x + 0)], new Array(got.length).fill(0));
      }),
    ),
    law("logSoftmax: is the gradient itself where that adds up to 0", "logSoftmax", (context) =>
      forTelling(context, "logSoftmax", async (value) => {
        const { output } = inputsOf(value, dtype);
        const outputGradient = balanced(value);
        const got = await run(context, dtype, value, { output, outputGradient });
        expectSame("of nothing in sum", [...got.map((x) => x + 0)], [...outputGradient.map((x) => x + 0)]);
      }),
    ),
    ...ofEach("is the slope of the forward operation", (context, kind) =>
      context.forEach(
        [
          { shape: [4, 9], axis: 1 },
          { shape: [7, 3], axis: 0 },
        ],
        async (plain) => {
          const value = caseOf({ kind, ...plain });
          const inputs = inputsOf(value, dtype);
          const got = await run(context, dtype, value, inputs);
          const expected = differences(value, inputs.outputGradient, dtype);
          measure(
            context,
            axesOf(value),
            got,
            expected,
            softmaxGradientTolerance(9, dtype, context.numerics),
          );
        },
      ),
    ),
    ...ofEach("has the same bits in a row, whatever the others hold", (context, kind) =>
      context.forEach(
        [
          { shape: [9, 67], axis: 1 },
          { shape: [67, 12], axis: 0 },
        ],
        async (plain) => {
          const value = caseOf({ kind, ...plain });
          const row = rowOf(value);
          const before = inputsOf(value, dtype);
          const others = inputsOf({ ...value, seed: 99 }, dtype);
          const mixed = (own: Float64Array, other: Float64Array) =>
            own.map((x, at) => (row(at) === 4 ? x : other[at]!));
          const after = {
            output: mixed(before.output, others.output),
            outputGradient: mixed(before.outputGradient, others.outputGradient),
          };
          const own = async (inputs: SoftmaxGradientInputs) =>
            [...(await run(context, dtype, value, inputs))].filter((_, at) => row(at) === 4);
          expectSame("row 4", await own(after), await own(before));
        },
      ),
    ),
    ...ofEach("stays accurate over many elements", (context, kind) =>
      context.forEach(
        [caseOf({ kind, shape: [long], axis: null }), caseOf({ kind, shape: [long, 2], axis: 0 })],
        (value) => check(context, dtype, value, alike(value, dtype), longSumError),
        { quick: 1 },
      ),
    ),
    law("touches nothing but the elements of its output", undefined, (context) => {
      const kinds = softmaxKinds.filter((kind) =>
        context.backend.supports("softmaxGradient", { dtype, kind }),
      );
      return context.forAll(cases(kinds, oddPlacement), (value) => check(context, dtype, value));
    }),
  ];
}

/** The row of each element. */
function rowOf(value: Plain): (at: number) => number {
  const { length, inner } = around(value);
  return (at) => Math.floor(at / inner / length) * inner + (at % inner);
}

/** The place of each element in its row. */
function placeIn(value: Plain): (at: number) => number {
  const { length, inner } = around(value);
  return (at) => Math.floor(at / inner) % length;
}

/** Fractions that add up to exactly 1 in each row, and that f16 holds for up to 2^14 elements. */
function shares(value: Plain): Float64Array {
  const { length } = around(value);
  const place = placeIn(value);
  const whole = length <= 1024 ? 1024 : 2 ** 14;
  const least = Math.floor(whole / length);
  const more = whole - least * length;
  return new Float64Array(product(value.shape)).map((_, at) => (least + (place(at) < more ? 1 : 0)) / whole);
}

/** One whole number for each row. */
function levels(value: Plain): Float64Array {
  const row = rowOf(value);
  return new Float64Array(product(value.shape)).map((_, at) => (row(at) % 9) - 4);
}

/** Whole numbers that add up to 0 in each row: the last one makes up for the others, of which most are followed by their opposite. */
function balanced(value: Plain): Float64Array {
  const { length } = around(value);
  const place = placeIn(value);
  const row = rowOf(value);
  return new Float64Array(product(value.shape)).map((_, at) => {
    const j = place(at);
    if (j === length - 1 && length % 2 === 1) return 0;
    return (j % 2 === 0 ? 1 : -1) * (((j >> 1) + row(at)) % 7);
  });
}

/** Equal terms, for which the rounding errors of a running sum have the same sign. */
function alike(value: GradientCase, dtype: FloatType): SoftmaxGradientInputs {
  const count = product(value.shape);
  const output = new Float64Array(count).fill(roundTo(dtype, value.kind === "softmax" ? 0.31 : -3.7));
  return { output, outputGradient: new Float64Array(count).fill(roundTo(dtype, 0.1)) };
}

/** The step of central differences. */
const step = 2 ** -14;

/**
 * The slope of the sum of gradient times output by central differences in f64. Magnitudes also allow for an output that was
 * stored (a relative error u changes y (dy - D) by u y (|dy - D| + sum of |y dy|), and dy - e^y S by u |y| e^y |S|), and for
 * the differences: their step squared times a sixth of a third derivative, which is at most 6 times the largest dy, or
 * the sum of dy.
 */
function differences(value: GradientCase, dy: Float64Array, dtype: FloatType): Expected {
  const x = inputOf(value);
  const { length } = around(value);
  const row = rowOf(value);
  const y = forward(value, x);
  const unit = eps + 2 * roundingOf[dtype];
  return collect((emit) => {
    for (const at of x.keys()) {
      const own = [...x.keys()].filter((other) => row(other) === row(at));
      const objective = (shift: number) => {
        const outputs = forward(value, x.with(at, x[at]! + shift));
        return own.reduce((sum, other) => sum + dy[other]! * outputs[other]!, 0);
      };
      const slope = (objective(step) - objective(-step)) / (2 * step);
      const total = own.reduce((sum, other) => sum + Math.abs(dy[other]!), 0);
      const weight = value.kind === "softmax" ? y[at]! : Math.exp(y[at]!) * (1 + Math.abs(y[at]!));
      const error = (unit * 2 + (length + 6) * eps) * weight * (2 * Math.abs(dy[at]!) + 2 * total);
      emit(at, slope, (error + step ** 2 * (1 + total) + eps * Math.abs(slope)) / eps);
    }
  });
}

/** Half of what lies between 1 and the next number. */
const roundingOf: Readonly<Record<FloatType, number>> = { f32: 2 ** -24, f16: 2 ** -11 };

const { NEGATIVE_INFINITY: none } = Number;

/** Laws on numbers that not every backend keeps: infinities. */
export function specialValues(dtype: FloatType): readonly Law[] {
  return [
    numericsLaw(
      dtype,
      "softmaxGradient",
      "takes -Infinity for weight 0 in logSoftmax",
      kept("infinity"),
      async ({ backend }) => {
        for (const n of [2, 5, 41, 300]) {
          const output = new Array<number>(n).fill(none).with(n >> 1, 0);
          const outputGradient = Array.from({ length: n }, (_, j) => (j % 5) - 1);
          const sum = outputGradient.reduce((a, b) => a + b, 0);
          const expected = outputGradient.with(n >> 1, outputGradient[n >> 1]! - sum);
          const got = await compute(backend, dtype, [output, outputGradient], n, ([y, dy], result) =>
            backend.softmaxGradient({
              ...{ kind: "logSoftmax", shape: [n], dtype },
              ...{ output: y!, outputGradient: dy!, inputGradient: result },
            }),
          );
          // e^0 may be off by a few units.
          const right = got.map((value, j) =>
            Math.abs(value - expected[j]!) <= 2 ** -9 * Math.abs(sum) && j === n >> 1 ? expected[j]! : value,
          );
          expectSame(`one weight among ${n}`, right, expected);
        }
      },
      "logSoftmax",
    ),
  ];
}
