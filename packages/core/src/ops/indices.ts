import type { Checks } from "./checks.js";

/**
 * A shape whose axes before and after one are merged, and indices along that one; `GatherProblem` and `ScatterProblem` say
 * where elements and their indices are.
 */
export interface IndexedAxis {
  readonly outer: number;
  /** Extent of the axis in the shape. */
  readonly length: number;
  /** Extent of the axis in the indices. */
  readonly count: number;
  readonly inner: number;
  /** Elements per step in the indices; 0 if they repeat along an axis, or if it has extent 1. */
  readonly outerStride: number;
  /** Also the extent along i: `inner` if innerStride is 1, and 1 if that is 0. */
  readonly axisStride: number;
  readonly innerStride: 0 | 1;
}

/** Indices follow the axes of `shape` before and after the given one, or repeat along them. Throws if they fit neither form. */
export function indexedAxis(
  read: Checks,
  shape: readonly number[],
  axis: number,
  indexShape: readonly number[],
): IndexedAxis {
  const { outer, length, inner } = read.around("shape", shape, axis);
  if (indexShape.length !== shape.length)
    read.fail(
      "indexShape",
      `is [${indexShape.join(", ")}]; allowed: ${shape.length} extents, as many as shape`,
    );
  const perOuter = follows(read, shape, indexShape, 0, axis);
  const perInner = follows(read, shape, indexShape, axis + 1, shape.length);
  const count = indexShape[axis]!;
  const innerStride = perInner && inner > 1 ? 1 : 0;
  const axisStride = innerStride === 1 ? inner : 1;
  const outerStride = perOuter && outer > 1 ? count * axisStride : 0;
  return { outer, length, count, inner, outerStride, axisStride, innerStride };
}

/** Whether indices follow the axes in [from, to), rather than repeat along them. Throws if they do neither. */
function follows(
  read: Checks,
  shape: readonly number[],
  indexShape: readonly number[],
  from: number,
  to: number,
): boolean {
  const [wanted, given] = [shape.slice(from, to), indexShape.slice(from, to)];
  if (given.every((extent, i) => extent === wanted[i])) return true;
  if (given.every((extent) => extent === 1)) return false;
  return read.fail(
    "indexShape",
    `is [${indexShape.join(", ")}]; allowed from axis ${from} to ${to - 1}: ` +
      `[${wanted.join(", ")}], as in shape, or nothing but 1`,
  );
}
