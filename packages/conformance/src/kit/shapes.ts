/* Shapes of contiguous elements. Worked out here, because laws judge core's ways with shapes too. */

/** Elements of a shape. */
export function product(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** Elements per step along each axis, the last moving fastest. */
export function contiguousStrides(shape: readonly number[]): readonly number[] {
  return shape.map((_, axis) => product(shape.slice(axis + 1)));
}
