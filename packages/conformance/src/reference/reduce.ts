import {
  type Axis,
  type FloatType,
  type ReduceKind,
  type ReduceProblem,
  reduceIdentity,
} from "@backplane/core";
import type { Emit } from "./gemm.js";

export type ReduceShape = Pick<ReduceProblem<unknown, FloatType>, "kind" | "kept" | "reduced">;

/**
 * One element per place along the kept axes. The magnitude of an element is sum |input| for sum and
 * mean, and |value| otherwise.
 */
export function reduce(shape: ReduceShape, input: Float64Array, emit: Emit): void {
  const { kind } = shape;
  const combine = combiners[kind];
  const places = offsets(shape.reduced);
  let index = 0;
  for (const start of offsets(shape.kept)) {
    let value = kind === "mean" ? 0 : reduceIdentity[kind];
    let magnitude = 0;
    for (const place of places) {
      const x = input[start + place]!;
      value = combine(value, x);
      magnitude += Math.abs(x);
    }
    if (kind === "mean") value /= places.length;
    emit(index++, value, kind === "sum" || kind === "mean" ? magnitude : Math.abs(value));
  }
}

const combiners: Readonly<Record<ReduceKind, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  mean: (a, b) => a + b,
  max: (a, b) => Math.max(a, b),
  min: (a, b) => Math.min(a, b),
  prod: (a, b) => a * b,
};

/** Returns the offset of each place along some axes, in elements; the last axis moves fastest. */
export function offsets(axes: readonly Axis[]): readonly number[] {
  let places = [0];
  for (const { extent, stride } of axes) {
    const finer = new Array<number>(places.length * extent);
    for (let i = 0; i < finer.length; i++) finer[i] = places[Math.floor(i / extent)]! + (i % extent) * stride;
    places = finer;
  }
  return places;
}
