/** Shapes for tests of every element type, and which elements meet. */

const product = (shape: readonly number[]): number => shape.reduce((x, y) => x * y, 1);

export const broadcasts: readonly { readonly a: readonly number[]; readonly b: readonly number[] }[] = [
  { a: [], b: [] },
  { a: [1], b: [1, 1] },
  { a: [7, 5], b: [5] },
  { a: [5], b: [7, 5] },
  { a: [7, 5], b: [7, 1] },
  { a: [7, 1], b: [1, 5] },
  { a: [3, 1, 4, 1, 5], b: [1, 2, 1, 6, 1] },
  { a: [2, 3, 4], b: [1] },
  { a: [1], b: [2, 3, 4] },
  { a: [3, 10000], b: [10000] },
  { a: [3, 10000], b: [3, 1] },
  { a: [5000, 3], b: [3] },
  { a: [4, 1, 3, 67], b: [4, 2, 1, 67] },
  {
    a: Array.from({ length: 17 }, (_, i) => 1 + (i % 2)),
    b: Array.from({ length: 17 }, (_, i) => 2 - (i % 2)),
  },
];

export interface Broadcast {
  /** Elements of the operands and of the output. */
  readonly a: number;
  readonly b: number;
  readonly output: number;
  /** The elements that meet at each place of the output. */
  readonly pairs: readonly (readonly [a: number, b: number])[];
}

/** Broadcasting as in NumPy. */
export function broadcast(shapeA: readonly number[], shapeB: readonly number[]): Broadcast {
  const rank = Math.max(shapeA.length, shapeB.length);
  const pad = (shape: readonly number[]): number[] => [...Array(rank - shape.length).fill(1), ...shape];
  const [a, b] = [pad(shapeA), pad(shapeB)];
  const shape = a.map((extent, i) => (extent === 1 ? b[i]! : extent));
  const index = (place: number, extents: readonly number[]): number => {
    let [rest, step, at] = [place, 1, 0];
    for (let axis = rank - 1; axis >= 0; axis--) {
      const i = rest % shape[axis]!;
      rest = Math.floor(rest / shape[axis]!);
      if (extents[axis] !== 1) at += i * step;
      step *= extents[axis]!;
    }
    return at;
  };
  const output = product(shape);
  return {
    ...{ a: product(a), b: product(b), output },
    pairs: Array.from({ length: output }, (_, place) => [index(place, a), index(place, b)] as const),
  };
}

export const reductions: readonly { readonly shape: readonly number[]; readonly axes: readonly number[] }[] =
  [
    { shape: [], axes: [] },
    { shape: [1], axes: [0] },
    { shape: [5], axes: [] },
    { shape: [70000], axes: [0] },
    { shape: [7, 9], axes: [0] },
    { shape: [7, 9], axes: [1] },
    { shape: [7, 9], axes: [0, 1] },
    { shape: [3, 1100], axes: [0] },
    { shape: [1100, 3], axes: [0] },
    { shape: [29, 526], axes: [1] },
    { shape: [9, 1600], axes: [1] },
    { shape: [1100, 3], axes: [1] },
    { shape: [40000, 2], axes: [0] },
    { shape: [2, 40000], axes: [1] },
    { shape: [59, 1001], axes: [0] },
    { shape: [300, 130], axes: [0] },
    { shape: [47, 4100], axes: [0] },
    { shape: [41, 4095], axes: [0] },
    { shape: [2, 27, 300], axes: [1] },
    { shape: [20, 4, 30], axes: [1] },
    { shape: [20, 4, 30], axes: [0, 2] },
    { shape: [5, 3, 4, 7, 6], axes: [1, 3] },
    { shape: [5, 3, 4, 7, 6], axes: [0, 2, 4] },
    { shape: [3, 200, 2, 130], axes: [1, 3] },
    { shape: [200, 2, 130, 3], axes: [0, 2] },
    { shape: [2, 1, 3, 1, 5], axes: [1, 2] },
  ];

/** Returns for each element of the input the place in the output to which it belongs. */
export function keptPlaces(shape: readonly number[], axes: readonly number[]): readonly number[] {
  const steps: number[] = [];
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    steps[axis] = axes.includes(axis) ? 0 : step;
    if (!axes.includes(axis)) step *= shape[axis]!;
  }
  return Array.from({ length: product(shape) }, (_, place) => {
    let [rest, at] = [place, 0];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += (rest % shape[axis]!) * steps[axis]!;
      rest = Math.floor(rest / shape[axis]!);
    }
    return at;
  });
}
