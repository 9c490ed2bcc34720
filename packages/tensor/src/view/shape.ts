import { described, listed, refuse } from "../errors.js";

export type Shape = readonly number[];

/** The most axes that a tensor may have, as in `copy` and `map`. */
export const mostAxes = 8;

export function sizeOf(shape: Shape): number {
  let size = 1;
  for (let i = 0; i < shape.length; i++) size *= shape[i]!;
  return size;
}

export function sameShape(a: Shape, b: Shape): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Elements per step along each axis of a contiguous array, row by row. */
export function contiguousStrides(shape: Shape): readonly number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = step;
    step *= shape[i]!;
  }
  return strides;
}

/** Throws unless the extents are whole numbers from 0, no more than 8 of them. Returns them. */
export function checkShape(operation: string, shape: Shape, argument = "shape"): Shape {
  const isShape =
    Array.isArray(shape) &&
    shape.length <= mostAxes &&
    shape.every((extent) => Number.isSafeInteger(extent) && extent >= 0);
  if (!isShape)
    refuse(
      operation,
      argument,
      `is ${Array.isArray(shape) ? listed(shape) : String(shape)}; allowed: at most ${mostAxes} whole numbers from 0`,
    );
  return shape;
}

/** Returns an axis counted from the first. Negative ones count from the last. */
export function axisOf(operation: string, axis: number, rank: number, argument = "axis"): number {
  const place = axis < 0 ? axis + rank : axis;
  if (!Number.isInteger(axis) || place < 0 || place >= rank)
    refuse(
      operation,
      argument,
      rank === 0
        ? `is ${axis}; a tensor without axes has none`
        : `is ${axis}; allowed: ${-rank} to ${rank - 1}`,
    );
  return place;
}

/** Returns several axes counted from the first, each at most once. Undefined stands for all. */
export function axesOf(
  operation: string,
  axes: number | readonly number[] | undefined,
  rank: number,
): number[] {
  if (axes === undefined) return Array.from({ length: rank }, (_, i) => i);
  const list = typeof axes === "number" ? [axes] : axes;
  if (!Array.isArray(list))
    refuse(operation, "axes", `is ${described(axes)}; allowed: an axis or a list of axes`);
  const places = list.map((axis) => axisOf(operation, axis, rank, "axes"));
  if (new Set(places).size < places.length)
    refuse(operation, "axes", `is ${listed(axes as readonly number[])}; allowed: each axis once`);
  return places;
}

/** Returns the shape to which both broadcast, aligned at the last axis, as in NumPy. */
export function broadcastShapes(operation: string, a: Shape, b: Shape): Shape {
  if (sameShape(a, b)) return a;
  const rank = Math.max(a.length, b.length);
  const result = new Array<number>(rank);
  let isA = rank === a.length;
  let isB = rank === b.length;
  for (let i = 0; i < rank; i++) {
    const ofA = a[a.length - rank + i] ?? 1;
    const ofB = b[b.length - rank + i] ?? 1;
    if (ofA !== ofB && ofA !== 1 && ofB !== 1)
      refuse(
        operation,
        "shapes",
        `are ${listed(a)} and ${listed(b)}; allowed: extents that are the same from the last axis on, or 1, or absent`,
      );
    const extent = ofA === 1 ? ofB : ofA;
    result[i] = extent;
    isA &&= extent === ofA;
    isB &&= extent === ofB;
  }
  if (isA) return a;
  return isB ? b : result;
}
