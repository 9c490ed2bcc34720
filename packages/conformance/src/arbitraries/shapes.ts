import fc, { type Arbitrary } from "fast-check";
import { type Distribution, distributions } from "../data.js";
import { product } from "../kit/shapes.js";
import type { Placement } from "../workspace.js";

/** Extents at which kernels change: the smallest, primes, and one less and one more than tiles. */
const interesting: readonly number[] = [
  ...[1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 23, 24, 31, 32, 33, 47, 48, 63, 64, 65],
  ...[97, 127, 128, 129, 255, 256, 257],
];

/**
 * An extent from 1 to `largest`; shrinks to smaller ones. One in five is any number at all, for kernels
 * with tiles that nobody here has thought of.
 */
export function extent(largest = 257): Arbitrary<number> {
  return fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...interesting.filter((value) => value <= largest)) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: largest }) },
  );
}

/** Shapes of 1 to `axes` axes with at most `elements` elements, most of them from small extents. */
export function shapesUpTo(elements: number, axes = 4): Arbitrary<readonly number[]> {
  return fc
    .array(fc.oneof(extent(9), extent(33), extent()), { minLength: 1, maxLength: axes })
    .filter((extents) => product(extents) <= elements);
}

/** An axis of a shape, counted from the first or the last. Null, once in five: not given. */
export function axisOf({ length }: readonly number[]): Arbitrary<number | null> {
  return fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: -length, max: length - 1 }) },
    { weight: 1, arbitrary: fc.constant(null) },
  );
}

/** Seeds change the data but do not make a case any simpler. */
export const dataSeed: Arbitrary<number> = fc.noShrink(fc.nat());

export const distribution: Arbitrary<Distribution> = fc.constantFrom(...distributions);

/** Elements by which a stride exceeds the least that it may be. */
export const extra: Arbitrary<number> = fc.constantFrom(0, 1, 2, 3, 5, 64);

/** Like the above, but never 0. */
export const someExtra: Arbitrary<number> = fc.constantFrom(1, 2, 3, 5, 64);

/** Every operand at a multiple of 16 bytes in any element type: kernels that load vectors want all of them so. */
const aligned: Arbitrary<Placement> = fc.record({
  before: fc.array(fc.constantFrom(0, 8, 16, 64), { minLength: 4, maxLength: 4 }),
  shared: fc.constant(false),
});

/** Every third case is aligned; of the others, every fourth has all operands in one allocation. */
export const placement: Arbitrary<Placement> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      before: fc.array(fc.constantFrom(0, 1, 2, 3, 4, 7, 63, 64, 129), { minLength: 4, maxLength: 4 }),
      shared: fc.nat(3).map((value) => value === 3),
    }),
  },
  { weight: 1, arbitrary: aligned },
);

/** Like `placement`, with something before every operand. */
export const oddPlacement: Arbitrary<Placement> = fc.record({
  before: fc.array(fc.constantFrom(1, 2, 3, 5, 7, 63, 129), { minLength: 4, maxLength: 4 }),
  shared: fc.boolean(),
});

/** For fixed cases: plain, but not at the start; vectors of 16 bytes fit the first three operands. */
export const fixedPlacement: Placement = { before: [8, 0, 64, 1], shared: false };

/** Every operand where vectors of 16 bytes may be loaded. */
export const alignedPlacement: Placement = { before: [8], shared: false };
