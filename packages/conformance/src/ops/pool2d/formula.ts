import type { FloatType, Numerics, Pool2dKind, Pool2dProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

export type Pool2dShape = Omit<Pool2dProblem<unknown>, "input" | "output" | "indices" | "dtype">;

/** Places of one window along an axis: those inside of the input, and how many more a mean with padding counts. */
export function placesOf(
  window: number,
  {
    size,
    count,
    step,
    spread,
    before,
    after,
  }: Readonly<Record<"size" | "count" | "step" | "spread" | "before" | "after", number>>,
): { readonly inside: readonly number[]; readonly counted: number } {
  const all = Array.from({ length: count }, (_, i) => window * step + i * spread - before);
  return {
    inside: all.filter((place) => place >= 0 && place < size),
    counted: all.filter((place) => place < size + after).length,
  };
}

/** The sum of x / count has the magnitude sum |x| / count; a maximum has none. */
export function pool2d(
  shape: Pool2dShape,
  input: Float64Array,
  emit: Emit,
  emitIndex: Emit | undefined,
): void {
  const { kind, planes, height, width, inner, outHeight, outWidth, countPadding } = shape;
  const y = { size: height, count: shape.kernelHeight, step: shape.strideY, spread: shape.dilationY };
  const x = { size: width, count: shape.kernelWidth, step: shape.strideX, spread: shape.dilationX };
  const columns = Array.from({ length: outWidth }, (_, v) =>
    placesOf(v, { ...x, before: shape.left, after: shape.right }),
  );
  for (let u = 0; u < outHeight; u++) {
    const rows = placesOf(u, { ...y, before: shape.top, after: shape.bottom });
    for (let v = 0; v < outWidth; v++) {
      const window = rows.inside.flatMap((row) => columns[v]!.inside.map((column) => row * width + column));
      const counted = countPadding ? rows.counted * columns[v]!.counted : window.length;
      for (let plane = 0; plane < planes; plane++)
        for (let c = 0; c < inner; c++) {
          const at = (place: number) => input[(plane * height * width + place) * inner + c]!;
          const index = ((plane * outHeight + u) * outWidth + v) * inner + c;
          if (kind === "max") {
            const best = firstLargest(window, at);
            emit(index, at(best), 0);
            emitIndex?.(index, best, 0);
            continue;
          }
          let [sum, magnitude] = [0, 0];
          for (const place of window) {
            sum += at(place);
            magnitude += Math.abs(at(place));
          }
          emit(index, sum / counted, magnitude / counted);
        }
    }
  }
}

/** A NaN is larger than all numbers. */
function firstLargest(places: readonly number[], at: (place: number) => number): number {
  let best = places[0]!;
  for (const place of places) {
    if (Number.isNaN(at(best))) break;
    if (Number.isNaN(at(place)) || at(place) > at(best)) best = place;
  }
  return best;
}

/**
 * A maximum is one of the elements. A mean rounds for each of n - 1 additions, and is multiplied by a rounded reciprocal
 * (2.5 for that, and 1).
 */
export function poolTolerance(kind: Pool2dKind, n: number, dtype: FloatType, numerics: Numerics): Tolerance {
  if (kind === "max") return () => 0;
  const scale = gamma(n - 1) + 3.5 * epsilon;
  const small = underflow(n, numerics);
  return (value, magnitude) => scale * magnitude + small + storage(dtype, value, numerics);
}

export const evaluate: Evaluate<Pool2dProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, kind, input, output, indices, kernelHeight, kernelWidth } = problem;
  const values = memory.read(input, dtype);
  const tolerance = numerics && poolTolerance(kind, kernelHeight * kernelWidth, dtype, numerics);
  const emit = emitting(memory.write(output, dtype), tolerance);
  pool2d(problem, values, emit, indices && emitting(memory.write(indices, "i32"), undefined));
};
