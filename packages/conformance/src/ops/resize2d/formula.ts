import {
  dtypeBytes,
  type Numerics,
  type Resize2dKind,
  type Resize2dProblem,
  type Resize2dType,
  type ResizedAxis,
  type Resizing,
} from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

/** Where an element of the output comes from along one axis: (1 - weight) of `lower`, and weight of `upper`. */
export interface Between {
  readonly lower: number;
  readonly upper: number;
  readonly weight: number;
}

export interface Resize2dShape {
  readonly planes: number;
  readonly height: number;
  readonly width: number;
  readonly inner: number;
  /** One for each row of the output, and for each column. */
  readonly rows: readonly Between[];
  readonly columns: readonly Between[];
}

/** For the place numerator / divisor, which is limited to [0, size - 1]. Nearest: weight 0. */
export function between(numerator: number, divisor: number, size: number, isNearest: boolean): Between {
  const place = Math.min(Math.max(numerator, 0), (size - 1) * divisor);
  const lower = Math.floor(place / divisor);
  const weight = isNearest ? 0 : (place - lower * divisor) / divisor;
  return { lower, upper: weight === 0 ? lower : lower + 1, weight };
}

/** The rows and columns of a problem. */
export function betweenAll(problem: Resizing & { readonly kind: Resize2dKind }): Resize2dShape {
  const { kind, height, width, outHeight, outWidth, y, x } = problem;
  const all = (count: number, size: number, { factor, shift, divisor }: ResizedAxis) =>
    Array.from({ length: count }, (_, o) => between(o * factor + shift, divisor, size, kind === "nearest"));
  return { ...problem, rows: all(outHeight, height, y), columns: all(outWidth, width, x) };
}

/** The magnitude of a result is that of the largest element that it is made of. */
export function resize2d(shape: Resize2dShape, input: Float64Array, emit: Emit): void {
  const { planes, height, width, inner, rows, columns } = shape;
  let index = 0;
  for (let plane = 0; plane < planes; plane++)
    for (const row of rows)
      for (const column of columns)
        for (let c = 0; c < inner; c++) {
          const at = (y: number, x: number) => input[((plane * height + y) * width + x) * inner + c]!;
          let [value, magnitude] = [0, 0];
          let isPlain = true;
          for (const [y, s] of partsOf(row))
            for (const [x, t] of partsOf(column)) {
              const element = at(y, x);
              if (s * t === 1) value = element;
              else {
                isPlain = false;
                value += s * t * element;
              }
              magnitude = Math.max(magnitude, Math.abs(element));
            }
          // A copy is exact.
          emit(index++, value, isPlain ? 0 : magnitude);
        }
}

/** Without those whose factor is 0. */
export function partsOf({ lower, upper, weight }: Between): readonly (readonly [number, number])[] {
  const parts = [
    [lower, 1 - weight],
    [upper, weight],
  ] as const;
  return parts.filter(([, factor]) => factor > 0);
}

/**
 * A weight w is a whole number, rounded, times a rounded reciprocal, and so off by 3 w eps, and 1 - w by that and eps. A sum of two
 * such products, with 2 further roundings, is off by (6 w + 3) eps of the larger element; one of two such sums by twice that.
 */
export function resizeTolerance(dtype: Resize2dType, numerics: Numerics): Tolerance {
  if (dtype !== "f32" && dtype !== "f16") return () => 0;
  const small = underflow(6, numerics);
  return (value, magnitude) =>
    magnitude === 0 ? 0 : 18 * epsilon * magnitude + small + storage(dtype, value, numerics);
}

export const evaluate: Evaluate<Resize2dProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, kind, input, output } = problem;
  const shape = betweenAll(problem);
  if (kind === "nearest" && memory.bytes !== undefined) {
    // Of numbers, a NaN would lose its bits. Here each element is its own place.
    const size = dtypeBytes[dtype];
    const [source, target] = [memory.bytes(input), memory.bytes(output)];
    const places = Float64Array.from({ length: source.length / size }, (_, place) => place);
    resize2d(shape, places, (to, from) => {
      for (let byte = 0; byte < size; byte++) target[to * size + byte] = source[from * size + byte]!;
    });
    return;
  }
  const tolerance = numerics && resizeTolerance(dtype, numerics);
  const values = memory.read(input, dtype);
  resize2d(shape, values, emitting(memory.write(output, dtype), tolerance));
};
