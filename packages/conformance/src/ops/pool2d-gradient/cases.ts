import type { FloatType } from "@backplane/core";
import { draw, drawIntegers, random } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import type { Tolerance } from "../../tolerance.js";
import { collect, execute, measure } from "../../workspace.js";
import { argumentsFor, axesOf, extentsOf, type Pool2dCase, shapeOf } from "../pool2d/cases.js";
import { type Pool2dShape, placesOf } from "../pool2d/formula.js";
import { poolGradient, poolGradientTolerance } from "./formula.js";

/** Gradients and indices of all windows, in the order of the results of pool2d. */
export interface Gradients {
  readonly gradient: Float64Array;
  /** Of maxima. */
  readonly indices: Float64Array | undefined;
}

export function countOfWindows({ planes, outHeight, outWidth, inner }: Pool2dShape): number {
  return planes * outHeight * outWidth * inner;
}

/** Returns any of the elements of each window. */
export function indicesOf(shape: Pool2dShape, seed: number): Float64Array {
  const { outHeight, outWidth, width, inner } = shape;
  const [y, x] = axesOf(shape);
  const [rows, columns] = [
    Array.from({ length: outHeight }, (_, u) => placesOf(u, y).inside),
    Array.from({ length: outWidth }, (_, v) => placesOf(v, x).inside),
  ];
  const next = random(seed + 1);
  const any = (places: readonly number[]) => places[Math.floor(next() * places.length)]!;
  return Float64Array.from({ length: countOfWindows(shape) }, (_, i) => {
    const pixel = Math.floor(i / inner);
    return any(rows[Math.floor(pixel / outWidth) % outHeight]!) * width + any(columns[pixel % outWidth]!);
  });
}

export function gradientsOf(value: Pool2dCase, dtype: FloatType): Gradients {
  const shape = shapeOf(value);
  const count = countOfWindows(shape);
  const { data, seed } = value;
  return {
    gradient: data === "ties" ? drawIntegers(2, count, seed) : draw(data, count, seed, dtype),
    indices: value.kind === "max" ? indicesOf(shape, seed) : undefined,
  };
}

/** Whole numbers whose shares are whole too, and small enough for sums without rounding. */
export function wholeGradientsOf(value: Pool2dCase): Gradients {
  const shape = shapeOf(value);
  const area = value.kernel[0] * value.kernel[1];
  const share = value.kind === "mean" ? area : 1;
  const limit = Math.min(512, Math.max(1, Math.floor(2 ** 11 / area / share)));
  return {
    ...gradientsOf(value, "f32"),
    gradient: drawIntegers(limit, countOfWindows(shape), value.seed).map((x) => x * share),
  };
}

/** Runs a case. */
export async function runGradient(
  { backend }: Pick<LawContext, "backend">,
  dtype: FloatType,
  value: Pool2dCase,
  { gradient, indices }: Gradients,
): Promise<Float64Array> {
  const { planes, height, width, inner } = shapeOf(value);
  const inputs = planes * height * width * inner;
  return execute<"outputGradient" | "indices" | "inputGradient">({
    ...{ backend, dtype, dtypes: { indices: "i32" }, placement: value.placement },
    operands: {
      outputGradient: gradient,
      ...(indices === undefined ? {} : { indices }),
      inputGradient: new Float64Array(inputs).fill(Number.NaN),
    } as Record<"outputGradient" | "indices" | "inputGradient", Float64Array>,
    output: "inputGradient",
    written: Array.from({ length: inputs }, (_, i) => i),
    call: (slices) => backend.pool2dGradient({ ...slices, ...argumentsFor(value), ...given(dtype) }),
  });
}

export async function checkGradient(
  context: LawContext,
  dtype: FloatType,
  value: Pool2dCase,
  gradients: Gradients = gradientsOf(value, dtype),
  tolerance?: Tolerance,
): Promise<void> {
  const shape = shapeOf(value);
  const got = await runGradient(context, dtype, value, gradients);
  const expected = collect((emit) => poolGradient(shape, gradients.gradient, gradients.indices, emit));
  const allowed = tolerance ?? poolGradientTolerance(shape, dtype, context.numerics);
  measure(context, extentsOf(value), got, expected, allowed);
}
