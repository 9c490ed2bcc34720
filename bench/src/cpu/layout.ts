/**
 * Returns how a contiguous array with these strides along the axes of a shape lies: its own shape, and the axis of it
 * that each axis of the shape is.
 */
export function transposition(
  shape: readonly number[],
  strides: readonly number[],
): { readonly inputShape: readonly number[]; readonly axes: readonly number[] } {
  const order = strides.map((_, axis) => axis).sort((a, b) => strides[b]! - strides[a]!);
  return { inputShape: order.map((axis) => shape[axis]!), axes: shape.map((_, axis) => order.indexOf(axis)) };
}

/** The array with its axes in another order: axis i of the result is axis `axes[i]` of the array. */
export function permuted(
  data: ArrayLike<number>,
  shape: readonly number[],
  axes: readonly number[],
): Float32Array<ArrayBuffer> {
  const strides = shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
  const result = new Float32Array(data.length);
  const walk = (axis: number, from: number, to: number): number => {
    if (axis === axes.length) {
      result[to] = data[from]!;
      return to + 1;
    }
    let at = to;
    for (let i = 0; i < shape[axes[axis]!]!; i++) at = walk(axis + 1, from + i * strides[axes[axis]!]!, at);
    return at;
  };
  walk(0, 0, 0);
  return result;
}

/** Returns 0 if a query may look at a key, and otherwise a number below every score. */
export function causalMask(queries: number, keys: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: queries * keys }, (_, i) =>
    i % keys <= Math.floor(i / keys) ? 0 : -1e30,
  );
}
