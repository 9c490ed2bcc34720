import type { Checks } from "./checks.js";

/** Elements per step in indices, which count along one axis of a shape; see `GatherProblem`. */
export interface IndexStrides {
  readonly count: number;
  readonly outerStride: number;
  readonly axisStride: number;
  readonly innerStride: 0 | 1;
}

/** How indices of `indexShape` follow the axes of `shape`, or repeat along them. Throws if they fit neither form. */
export function indexStrides(
  read: Checks,
  shape: readonly number[],
  indexShape: readonly number[],
  axis: number,
  outer: number,
  inner: number,
): IndexStrides {
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
  return { count, outerStride, axisStride, innerStride };
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
