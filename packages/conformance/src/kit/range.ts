import { type DType, elementTypes } from "@backplane/core";

/** Between which numbers all elements of an array lie. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

/** Arrays with larger numbers are no longer used as inputs, so that nothing overflows, in f16 either. */
const largest = 32;

export function within(bound: number): Range {
  return { low: -bound, high: bound };
}

export function magnitude({ low, high }: Range): number {
  return Math.max(Math.abs(low), Math.abs(high));
}

export function isUsable(range: Range): boolean {
  return magnitude(range) <= largest;
}

/** Returns a range that allows for rounding to f16, and a little more. */
export function widened(low: number, high: number): Range {
  return { low: low - Math.abs(low) / 256 - 2 ** -14, high: high + Math.abs(high) / 256 + 2 ** -14 };
}

/** Whether functions with a pole at 0 have a guaranteed accuracy in the range. */
export function isPositive(range: Range): boolean {
  return range.low >= 2 ** -4;
}

/** Returns the range of all numbers of a type of whole numbers; undefined for others. */
export function wholeRange(dtype: DType): Range | undefined {
  const { range } = elementTypes[dtype];
  return range && { low: range[0], high: range[1] };
}
