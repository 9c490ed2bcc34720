import type { FloatType } from "@backplane/core";
import { draw, drawIntegers } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import type { Tolerance } from "../../tolerance.js";
import { collect, execute, measure } from "../../workspace.js";
import { argumentsFor, countOf, extentsOf, type Resize2dCase, shapeOf } from "../resize2d/cases.js";
import { resizeGradient, resizeGradientTolerance } from "./formula.js";

/** Results of resize2d. */
export function countOfResults({ batch, channels, to }: Resize2dCase): number {
  return batch * channels * to[0] * to[1];
}

/** Whole numbers of which quarters of quarters are whole, whose sums are small enough to be exact. */
export function wholeGradientsOf(value: Resize2dCase): Float64Array {
  return drawIntegers(2, countOfResults(value), value.seed).map((x) => 64 * x);
}

/** Runs a case. */
export async function runGradient(
  { backend }: Pick<LawContext, "backend">,
  dtype: FloatType,
  value: Resize2dCase,
  gradient: Float64Array,
): Promise<Float64Array> {
  const inputs = countOf(value);
  return execute({
    ...{ backend, dtype, placement: value.placement, output: "inputGradient" },
    written: Array.from({ length: inputs }, (_, i) => i),
    operands: { outputGradient: gradient, inputGradient: new Float64Array(inputs).fill(Number.NaN) },
    call: (slices) => backend.resize2dGradient({ ...slices, ...argumentsFor(value), ...given(dtype) }),
  });
}

export async function checkGradient(
  context: LawContext,
  dtype: FloatType,
  value: Resize2dCase,
  gradient: Float64Array = draw(value.data, countOfResults(value), value.seed, dtype),
  tolerance?: Tolerance,
): Promise<void> {
  const shape = shapeOf(value);
  const got = await runGradient(context, dtype, value, gradient);
  const expected = collect((emit) => resizeGradient(shape, gradient, emit));
  const allowed = tolerance ?? resizeGradientTolerance(shape, dtype, context.numerics);
  measure(context, extentsOf(value), got, expected, allowed);
}
