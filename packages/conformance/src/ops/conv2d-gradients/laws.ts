import { type ComputeBackend, type FloatType, floatTypes } from "@backplane/core";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { drawIntegers, exactLimit } from "../../data.js";
import { given } from "../../kit/arguments.js";
import { check, correctlyRounded } from "../../kit/checks.js";
import type { Law, LawContext } from "../../law.js";
import { tightProductSum } from "../../tolerance.js";
import { execute } from "../../workspace.js";
import {
  type ConvolutionCase,
  convolutionCases,
  depthwiseCases,
  depthwiseExamples,
  shapeOf,
  squareCases,
  window,
} from "../conv2d/cases.js";
import { tileOf } from "../conv2d/transformed.js";
import {
  elementsOf,
  exactly,
  type Gradient,
  type GradientCase,
  type GradientOperands,
  gradientCase,
  gradientCases,
  runGradient,
  shapeArguments,
  wholeNumbers,
  withAccumulation,
  withinBound,
} from "./cases.js";

/** Cases as in neural networks, scaled down as far as kernel selection allows. */
const largeCases: readonly GradientCase[] = [
  gradientCase({ inputs: 16, outputs: 64, size: [40, 40], kernel: [3, 3], padding: [1, 1, 1, 1] }),
  gradientCase({
    ...{ inputs: 3, outputs: 16, size: [64, 64], kernel: [7, 7], batch: 2 },
    ...{ stride: [2, 2], padding: [3, 3, 3, 3] },
  }),
  gradientCase({ inputs: 24, outputs: 40, size: [29, 27], kernel: [3, 3], stride: [2, 2], accumulate: true }),
  gradientCase({ inputs: 129, outputs: 65, size: [14, 14], kernel: [1, 1], batch: 2 }),
  gradientCase({ inputs: 64, outputs: 64, size: [28, 28], kernel: [1, 1], stride: [2, 2], batch: 2 }),
  gradientCase({
    ...{ inputs: 1, outputs: 1, groups: 65, size: [33, 29], kernel: [3, 3], padding: [1, 1, 1, 1] },
    ...{ accumulate: true },
  }),
  gradientCase({
    ...{ inputs: 1, outputs: 1, groups: 33, size: [32, 36], kernel: [3, 3], padding: [1, 1, 1, 1], batch: 2 },
    stride: [2, 2],
  }),
  gradientCase({ inputs: 1, outputs: 2, groups: 32, size: [17, 17], kernel: [5, 5], padding: [2, 2, 2, 2] }),
  gradientCase({ inputs: 16, outputs: 24, groups: 4, size: [20, 20], kernel: [3, 3], dilation: [2, 2] }),
  gradientCase({
    ...{ inputs: 130, outputs: 7, size: [9, 9], kernel: [3, 3], padding: [0, 2, 1, 0], batch: 3 },
    accumulate: true,
  }),
  gradientCase({ inputs: 7, outputs: 130, size: [9, 9], kernel: [3, 3], padding: [0, 2, 1, 0], batch: 3 }),
  gradientCase({ inputs: 2, outputs: 128, size: [40, 40], kernel: [5, 3], stride: [1, 2] }),
  // Windows that do not overlap.
  gradientCase({ inputs: 3, outputs: 48, size: [48, 33], kernel: [8, 8], stride: [8, 8], batch: 2 }),
  // A window that is the whole input.
  gradientCase({ inputs: 20, outputs: 30, size: [7, 6], kernel: [7, 6], batch: 5, accumulate: true }),
  gradientCase({ inputs: 1, outputs: 12, size: [28, 28], kernel: [5, 5], batch: 9 }),
  // Steps and dilations with a common divisor.
  gradientCase({ inputs: 9, outputs: 11, size: [31, 26], kernel: [3, 4], stride: [4, 2], dilation: [2, 6] }),
  // One window as large as the input, most of whose places lie in the padding.
  gradientCase({
    inputs: 3,
    outputs: 5,
    size: [3, 4],
    kernel: [3, 4],
    dilation: [2, 3],
    padding: [0, 0, 2, 9],
  }),
  // One more than the largest dimension that a grid of workgroups may have.
  gradientCase({ inputs: 1, outputs: 1, size: [1, 2], kernel: [1, 2], batch: 65_536 }),
];

/** Products of pixels, with and without steps, depthwise ones, and others. */
const channelsLastCases = [1, 3, 4, 5, 2, 8, 12, 13].map(
  (number): GradientCase => ({ ...largeCases[number]!, layout: "NHWC" }),
);

/** Different padding on every side, and operands that make each of them count. */
const lopsidedCases = gradientCases().map(
  (value): GradientCase => ({ ...value, padding: [2, 0, 1, 3], kernel: [3, 3], dilation: [1, 1] }),
);

/** Windows far out in the padding, where the products that lead to coordinates are large; and padding that no tap reaches past. */
const far: readonly Partial<ConvolutionCase>[] = [
  { stride: [2 ** 29, 1], padding: [2 ** 29, 1, 2 ** 29 - 9, 0] },
  { stride: [1, 2 ** 16], padding: [0, 2 ** 17, 1, 2 ** 16] },
  { dilation: [2 ** 16, 2 ** 28], padding: [1, 2 ** 28, 2 ** 17, 2 ** 28] },
  { kernel: [1, 2], padding: [3, 4, 5, 2] },
  { kernel: [2, 1], stride: [3, 1], padding: [4, 0, 6, 5] },
];
const farCases = far.map((parts) =>
  gradientCase({ inputs: 2, outputs: 3, size: [4, 5], kernel: [3, 3], ...parts }),
);

export function gradientLaws(gradient: Gradient): readonly Law[] {
  return floatTypes.flatMap((dtype) => lawsFor(gradient, dtype));
}

function lawsFor(gradient: Gradient, dtype: FloatType): readonly Law[] {
  const { operation } = gradient;
  const law = (name: string, run: Law["run"], rest: Partial<Law> = {}): Law => ({
    ...{ topic: operation, name, operation, dtype, run, ...rest },
  });
  const bound = (context: LawContext) => (value: GradientCase) =>
    withinBound(context, gradient, dtype, value);
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(gradientCases(), (value) => exactly(context, gradient, dtype, value)),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(gradientCases(), bound(context), { runs: 2 }),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases, bound(context), { quick: 5 }),
    ),
    law(
      "stays within the tight bound where rounding is to nearest",
      (context) =>
        context.forAll(gradientCases(), (value) =>
          withinBound(context, gradient, dtype, value, tightProductSum),
        ),
      correctlyRounded,
    ),
    law("touches nothing but the elements of its result", (context) =>
      context.forAll(gradientCases(oddPlacement), bound(context)),
    ),
    law("takes images with channels last", (context) =>
      context.forAll(
        gradientCases().map((value): GradientCase => ({ ...value, layout: "NHWC" })),
        (value) => exactly(context, gradient, dtype, value),
      ),
    ),
    law("stays within the error bound on larger shapes with channels last", (context) =>
      context.forEach(channelsLastCases, bound(context), { quick: 3 }),
    ),
    law("takes padding as top, left, bottom, right", (context) =>
      context.forAll(lopsidedCases, bound(context), { examples: farCases }),
    ),
    law("stays within the error bound where each channel has a filter of its own", (context) =>
      context.forAll(withAccumulation(depthwiseCases()), bound(context), {
        examples: depthwiseExamples.map((value, i) => ({ ...value, accumulate: i % 3 === 1 })),
      }),
    ),
    law("is exact on whole numbers, and within the error bound, with filters of 3 x 3", (context) =>
      context.forAll(withAccumulation(squareCases(oddPlacement)), async (value) => {
        await exactly(context, gradient, dtype, value);
        await withinBound(context, gradient, dtype, value);
      }),
    ),
    law("gives groups what each of them gives by itself", (context) =>
      context.forAll(
        gradientCases().map(
          (value): GradientCase => ({ ...value, batch: 1, layout: "NCHW", groups: 2 + (value.seed % 3) }),
        ),
        (value) => groupByGroup(context, gradient, dtype, value),
        { runs: 0.5 },
      ),
    ),
    law("adds up over parts of the sum", (context) =>
      context.forAll(
        gradientCases().map(
          (value): GradientCase => ({ ...value, layout: "NCHW", groups: 1, accumulate: true }),
        ),
        (value) => partByPart(context, gradient, dtype, value),
        { runs: 0.5 },
      ),
    ),
    law(
      "is the adjoint of the convolution",
      (context) =>
        context.forAll(convolutionCases(), (value) => adjoint(context, gradient, dtype, value), {
          runs: 0.5,
        }),
      {
        exempt: (_capabilities, backend) =>
          backend.supports("conv2d", { dtype }) ? undefined : `conv2d in ${dtype} is not supported`,
      },
    ),
    law("gives zero, or what was there, where there is nothing to sum", (context) =>
      context.forAll(
        gradientCases(),
        async (value) => {
          await withinBound(context, gradient, dtype, { ...value, batch: 0 });
          await withinBound(context, gradient, dtype, { ...value, outputs: 0 });
          await withinBound(context, gradient, dtype, { ...value, inputs: 0 });
          const [top, left, bottom, right] = value.padding;
          const padding = [top + value.size[0], left, bottom, right] as const;
          await withinBound(context, gradient, dtype, { ...value, size: [0, value.size[1]], padding });
        },
        { runs: 0.5 },
      ),
    ),
  ];
}

/** Elements from `first` on. */
function part(values: Float64Array, first: number, count: number): Float64Array {
  return values.subarray(first, first + count);
}

/** Whether sums of whole numbers are exact, in a convolution and in its gradients: not by transforms. */
function isExact(value: ConvolutionCase, dtype: FloatType, { numerics }: LawContext): boolean {
  return tileOf(shapeOf(value), dtype, numerics) === undefined;
}

/** Of one image: operands of a group follow those of the one before. */
async function groupByGroup(
  context: LawContext,
  gradient: Gradient,
  dtype: FloatType,
  value: GradientCase,
): Promise<void> {
  if (!isExact({ ...value, groups: 1 }, dtype, context)) return;
  const { backend } = context;
  const operands = wholeNumbers(gradient, value, dtype);
  const whole = await runGradient(backend, gradient, dtype, value, operands);
  const share = (values: Float64Array, group: number) =>
    part(values, (values.length / value.groups) * group, values.length / value.groups);
  for (let group = 0; group < value.groups; group++) {
    const alone = await runGradient(
      backend,
      gradient,
      dtype,
      { ...value, groups: 1 },
      {
        other: share(operands.other, group),
        outputGradient: share(operands.outputGradient, group),
        before: operands.before && share(operands.before, group),
      },
    );
    same(share(whole, group), alone, `group ${group}`);
  }
}

/** The sums go over images, or (of one image) over output channels: each of these alone, added to those before. */
async function partByPart(
  context: LawContext,
  gradient: Gradient,
  dtype: FloatType,
  given: GradientCase,
): Promise<void> {
  if (!isExact(given, dtype, context)) return;
  const { backend } = context;
  const overImages = gradient.result === "filterGradient";
  const value = overImages ? given : { ...given, batch: 1 };
  const operands = wholeNumbers(gradient, value, dtype);
  const whole = await runGradient(backend, gradient, dtype, value, operands);
  const parts = overImages ? value.batch : value.outputs;
  const one = overImages ? { ...value, batch: 1 } : { ...value, outputs: 1 };
  let sums = operands.before!;
  for (let i = 0; i < Math.min(parts, 4); i++) {
    // The last one has all that are left.
    const count = i === 3 ? parts - 3 : 1;
    const some = overImages ? { ...one, batch: count } : { ...one, outputs: count };
    const share = (values: Float64Array) =>
      part(values, (values.length / parts) * i, (values.length / parts) * count);
    const summed: GradientOperands = {
      ...{ other: share(operands.other), outputGradient: share(operands.outputGradient), before: sums },
    };
    sums = await runGradient(backend, gradient, dtype, some, summed);
  }
  same(sums, whole, "the sum of the parts");
}

function same(got: Float64Array, expected: Float64Array, what: string): void {
  for (const [i, value] of expected.entries())
    check(got[i] === value, `${what}: element ${i} is ${got[i]}, not ${value}`);
}

/** <conv2d(x, w), y> = <x, inputGradient(y, w)> = <w, filterGradient(x, y)>, exactly, if no sum is rounded. */
async function adjoint(
  context: LawContext,
  gradient: Gradient,
  dtype: FloatType,
  value: ConvolutionCase,
): Promise<void> {
  if (!isExact(value, dtype, context)) return;
  const { backend } = context;
  const { other } = gradient;
  const counts = elementsOf(value);
  const limit = exactLimit(Math.max(gradient.terms(shapeOf(value)), window(value)), 1, dtype);
  const whole = (count: number, seed: number) => drawIntegers(limit, count, seed);
  const drawn = {
    ...{ input: whole(counts.input, value.seed), filter: whole(counts.filter, value.seed + 1) },
    outputGradient: whole(counts.output, value.seed + 2),
  };
  const output = await forward(backend, dtype, value, drawn, counts.output);
  const result = await runGradient(
    backend,
    gradient,
    dtype,
    { ...value, accumulate: false },
    { other: drawn[other], outputGradient: drawn.outputGradient, before: undefined },
  );
  const forwards = inner(output, drawn.outputGradient);
  const backwards = inner(result, drawn[other === "filter" ? "input" : "filter"]);
  check(forwards === backwards, `<conv2d(x, w), y> is ${forwards}, and by the gradient ${backwards}`);
}

function forward(
  backend: ComputeBackend,
  dtype: FloatType,
  value: ConvolutionCase,
  { input, filter }: { readonly input: Float64Array; readonly filter: Float64Array },
  count: number,
): Promise<Float64Array> {
  return execute<"input" | "filter" | "output">({
    ...{ backend, dtype, placement: value.placement, output: "output" },
    written: Array.from({ length: count }, (_, i) => i),
    operands: { input, filter, output: new Float64Array(count).fill(Number.NaN) },
    call: (slices) => backend.conv2d({ ...slices, ...shapeArguments(value), ...given(dtype) }),
  });
}

function inner(a: Float64Array, b: Float64Array): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}
