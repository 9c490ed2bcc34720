/** Shapes for tests of every element type. */
import type { Axis } from "@backplane/core";

/** A shape, and the strides of two operands in it. */
export interface Broadcast {
  readonly shape: readonly number[];
  readonly a: readonly number[];
  readonly b: readonly number[];
}

export const broadcasts: readonly Broadcast[] = [
  { shape: [7, 5], a: [5, 1], b: [0, 1] },
  { shape: [7, 8], a: [8, 1], b: [1, 0] },
  { shape: [7, 5], a: [0, 1], b: [1, 0] },
  { shape: [3, 4, 5], a: [20, 5, 1], b: [5, 0, 1] },
  { shape: [64], a: [1], b: [0] },
  { shape: [3, 16], a: [16, 1], b: [0, 1] },
  { shape: [2, 3, 24], a: [72, 24, 1], b: [0, 1, 0] },
  { shape: [5, 16], a: [0, 1], b: [1, 0] },
  { shape: [3, 2, 8], a: [8, 0, 1], b: [0, 8, 1] },
  { shape: [2, 3, 2, 3, 2, 3], a: [4, 0, 2, 0, 1, 0], b: [0, 9, 0, 3, 0, 1] },
  { shape: new Array(10).fill(2), a: evens(10, 0), b: evens(10, 1) },
];

/** Strides of an array that has every other axis of extent 2 and repeats along the rest. */
function evens(rank: number, parity: number): number[] {
  return Array.from({ length: rank }, (_, i) => (i % 2 === parity ? 2 ** Math.floor((rank - 1 - i) / 2) : 0));
}

/** The places in an operand with these strides, in the order of the elements of the shape. */
export function stridedPlaces(shape: readonly number[], strides: readonly number[]): number[] {
  return places(shape.map((extent, axis) => ({ extent, stride: strides[axis]! })));
}

/** Kept and reduced axes of one array. */
export interface Pattern {
  readonly kept: readonly Axis[];
  readonly reduced: readonly Axis[];
}

/** The axes of a contiguous array, of which those with a negative extent are reduced. */
export function pattern(...extents: readonly number[]): Pattern {
  const lists = { kept: [] as Axis[], reduced: [] as Axis[] };
  let stride = 1;
  for (const signed of [...extents].reverse()) {
    const extent = Math.abs(signed);
    (signed < 0 ? lists.reduced : lists.kept).unshift({ extent, stride });
    stride *= extent;
  }
  return lists;
}

export const patterns: readonly Pattern[] = [
  ...[pattern(), pattern(5), pattern(-5), pattern(-64), pattern(-257), pattern(-20_003), pattern(-70_000)],
  ...[
    pattern(3, -7),
    pattern(3, -8),
    pattern(5, -1024),
    pattern(300, -3),
    pattern(2, -9001),
    pattern(70, -16),
  ],
  ...[
    pattern(-7, 3),
    pattern(-8, 16),
    pattern(-1000, 2),
    pattern(-300, 70),
    pattern(-3, 1000),
    pattern(-1000, 33),
  ],
  ...[
    pattern(4, -5, 6),
    pattern(-4, 5, -6),
    pattern(-40, 3, -50),
    pattern(-5, 3, -64),
    pattern(4, -50, 64),
    pattern(3, -5, 20, -7),
  ],
  ...[pattern(-2, 2, -2, 2, -2, 2, -2, 2, -2, 3), pattern(-2, 7, -100, 20)],
  // Enough narrow rows for subgroups to do one each, of one axis and of two.
  ...[pattern(2050, -193), pattern(-3, 2050, -67)],
];

export function product(axes: readonly Axis[]): number {
  return axes.reduce((total, { extent }) => total * extent, 1);
}

/** The place of each element along these axes, the last of which goes by fastest. */
export function places(axes: readonly Axis[]): number[] {
  return axes.reduce<number[]>(
    (outer, { extent, stride }) =>
      outer.flatMap((place) => Array.from({ length: extent }, (_, i) => place + i * stride)),
    [0],
  );
}
