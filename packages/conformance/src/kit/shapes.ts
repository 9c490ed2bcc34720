/* Shapes of contiguous elements. Worked out here, because laws judge core's ways with shapes too. */

/** Elements of a shape. */
export function product(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** Elements before, along and after one axis of a shape. Null: the last. */
export function around({
  shape,
  axis,
}: {
  readonly shape: readonly number[];
  readonly axis: number | null;
}): {
  readonly outer: number;
  readonly length: number;
  readonly inner: number;
} {
  const place = axis === null ? shape.length - 1 : axis < 0 ? axis + shape.length : axis;
  return {
    outer: product(shape.slice(0, place)),
    length: shape[place]!,
    inner: product(shape.slice(place + 1)),
  };
}

/** Elements per step along each axis, the last moving fastest. */
export function contiguousStrides(shape: readonly number[]): readonly number[] {
  return shape.map((_, axis) => product(shape.slice(axis + 1)));
}
