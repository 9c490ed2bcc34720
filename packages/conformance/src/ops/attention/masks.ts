import { type FloatType, type MaskAxes, type MaskType, reachOfMask } from "@backplane/core";
import { draw, random, roundTo } from "../../data.js";

/** Where a mask hides keys. */
type Pattern =
  /** Here and there. */
  | "some"
  /** All keys of every third query, and others here and there. */
  | "rows"
  /** The first three quarters of the keys, as behind padding on the left, except for the last query. */
  | "first"
  | "none";

export interface MaskCase {
  readonly dtype: MaskType;
  readonly pattern: Pattern;
  /**
   * What is added, if anything, where no key is hidden: normally distributed numbers, 0, or 0 and a number that is common
   * for hiding keys.
   */
  readonly numbers: "normal" | "zeros" | "large";
  /** The axes along which it is repeated. */
  readonly repeated: readonly [batch: boolean, head: boolean, query: boolean, key: boolean];
  /** Whether other numbers lie between those of the mask. */
  readonly isApart: boolean;
  readonly seed: number;
}

/** Of which `repeated` are 1. */
function ownExtents({ repeated }: MaskCase, shape: MaskAxes): MaskAxes {
  const one = (axis: 0 | 1 | 2 | 3) => (repeated[axis] ? Math.min(1, shape[axis]) : shape[axis]);
  return [one(0), one(1), one(2), one(3)];
}

/** The numbers of a mask without repetition, one after the other, as its type holds them. */
function numbersOf(mask: MaskCase, shape: MaskAxes): Float64Array {
  const { dtype, pattern, numbers, seed } = mask;
  const [, , queries, keys] = ownExtents(mask, shape);
  const count = ownExtents(mask, shape).reduce((a, b) => a * b);
  const float = dtype === "u8" ? "f32" : dtype;
  const next = random(seed);
  const isHidden = (i: number) => {
    const [query, key] = [Math.floor(i / keys) % queries, i % keys];
    if (pattern === "none") return false;
    if (pattern === "first") return key < 0.75 * keys && (query < queries - 1 || queries === 1);
    return next() < 0.3 || (pattern === "rows" && query % 3 === 0);
  };
  const normal = draw("normal", numbers === "normal" ? count : 0, seed + 1, float);
  return Float64Array.from({ length: count }, (_, i) => {
    const hidden = isHidden(i);
    if (dtype === "u8") return hidden ? 0 : 1 + Math.floor(next() * 255);
    if (hidden) return Number.NEGATIVE_INFINITY;
    if (numbers === "normal") return roundTo(dtype, 2 * normal[i]!);
    return numbers === "large" && next() < 0.5 ? -30_000 : 0;
  });
}

/** Strides of contiguous elements, 0 along axes of extent 1. */
export function contiguousMask(extents: MaskAxes): MaskAxes {
  const [, heads, queries, keys] = extents;
  const plain = [heads * queries * keys, queries * keys, keys, 1];
  const stride = (axis: 0 | 1 | 2 | 3) => (extents[axis] > 1 ? plain[axis]! : 0);
  return [stride(0), stride(1), stride(2), stride(3)];
}

function forEachPlace(extents: MaskAxes, strides: MaskAxes, visit: (place: number) => void): void {
  for (let b = 0; b < extents[0]; b++)
    for (let h = 0; h < extents[1]; h++)
      for (let i = 0; i < extents[2]; i++)
        for (let j = 0; j < extents[3]; j++)
          visit(b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3]);
}

/** One number for each batch, head, query and key. */
export function expandedMask(mask: MaskCase, shape: MaskAxes): Float64Array {
  const numbers = numbersOf(mask, shape);
  const expanded: number[] = [];
  forEachPlace(shape, contiguousMask(ownExtents(mask, shape)), (place) => expanded.push(numbers[place]!));
  return Float64Array.from(expanded);
}

/** 1 for each key that a window lets a query see, 0 for others. */
export function windowMask(
  shape: MaskAxes,
  limits: { readonly window: number; readonly visible: number } | undefined,
): Float64Array {
  const [, , queries, keys] = shape;
  const count = shape.reduce((a, b) => a * b);
  return Float64Array.from({ length: count }, (_, index) => {
    if (limits === undefined) return 1;
    const last = (Math.floor(index / keys) % queries) + limits.visible;
    const key = index % keys;
    return key > last - limits.window && key <= last ? 1 : 0;
  });
}

/** The mask in memory, and its strides. NaN lies between its numbers. */
export function placedMask(
  mask: MaskCase,
  shape: MaskAxes,
): { readonly stored: Float64Array; readonly strides: MaskAxes } {
  const numbers = numbersOf(mask, shape);
  const extents = ownExtents(mask, shape);
  const own = contiguousMask(extents);
  if (!mask.isApart) return { stored: numbers, strides: own };
  // Keys of all queries side by side, and room everywhere.
  const [, heads, queries, keys] = extents;
  const apart = [heads * (queries + 1) * (2 * keys + 3), (queries + 1) * (2 * keys + 3), 2, 2 * queries + 1];
  const stride = (axis: 0 | 1 | 2 | 3) => (extents[axis] > 1 ? apart[axis]! : 0);
  const strides = [stride(0), stride(1), stride(2), stride(3)] as const;
  const stored = new Float64Array(reachOfMask(strides, extents)).fill(Number.NaN);
  const places: number[] = [];
  forEachPlace(extents, strides, (place) => places.push(place));
  for (const [i, place] of places.entries()) stored[place] = numbers[i]!;
  return { stored, strides };
}

/** The arguments of a mask in memory but the operand. */
export function maskArguments(
  mask: MaskCase | null,
  strides: MaskAxes | undefined,
  dtype: FloatType,
): Readonly<Record<string, unknown>> {
  if (mask === null) return {};
  const isPlain = !mask.isApart && !mask.repeated.includes(true);
  return {
    ...(isPlain ? {} : { maskStrides: strides }),
    ...(mask.dtype === dtype ? {} : { maskDtype: mask.dtype }),
  };
}
