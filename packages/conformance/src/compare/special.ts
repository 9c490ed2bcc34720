import type { DType, FloatType, Numerics } from "@backplane/core";
import { floatFormats, storages } from "../elements.js";

/*
 * What a result may be is not always known: backends differ in the numbers that they keep. This file finds the numbers that
 * matter among the inputs of a call.
 */

/** What the inputs of a call have that not every backend keeps. */
export class Specials {
  readonly #numerics: Numerics;
  /** Numbers without a meaning that both backends declare: NaN or infinities. */
  hasUnkept = false;
  /** Numbers that a backend may read as (another) zero. */
  hasZeroes = false;
  /** Whether steps on the way to a finite result may leave the range of f32. */
  isWide = false;

  constructor(numerics: Numerics) {
    this.#numerics = numerics;
  }

  note(values: Float64Array, dtype: DType, isMask: boolean): void {
    const { smallestNormal } = storages[dtype];
    for (const value of values) {
      const size = Math.abs(value);
      // A square, or a product of two, must stay in range.
      if (!(size <= wide)) {
        this.isWide = true;
        if (this.#isUnkept(value) && !(isMask && value === Number.NEGATIVE_INFINITY)) this.hasUnkept = true;
      } else if (size < smallestNormal && this.#isZeroed(value)) this.hasZeroes = true;
    }
  }

  /** Looks for NaN and infinities in arguments that are no operands. */
  noteArguments(value: unknown): void {
    if (typeof value === "number") {
      if (!(Math.abs(value) <= wide)) this.isWide = true;
      if (this.#isUnkept(value)) this.hasUnkept = true;
    } else if (typeof value === "object" && value !== null)
      for (const entry of Object.values(value)) this.noteArguments(entry);
  }

  /** Notes the factors of products without a bound on their number. */
  noteFactors(values: Float64Array): void {
    let bits = 0;
    for (const value of values) bits += Math.max(0, Math.log2(Math.abs(value)));
    if (!(bits < 100)) this.isWide = true;
  }

  /** Returns the inputs as a backend may read them that keeps nothing special. */
  weakened(values: Float64Array<ArrayBuffer>, dtype: DType): Float64Array<ArrayBuffer> {
    const { smallestNormal } = storages[dtype];
    return values.map((value) => {
      if (this.#isUnkept(value)) return value < 0 ? -1 : 1;
      return Math.abs(value) < smallestNormal && this.#isZeroed(value) ? 0 : value;
    });
  }

  #isUnkept(value: number): boolean {
    if (Number.isNaN(value)) return this.#numerics.nan !== "kept";
    return !Number.isFinite(value) && this.#numerics.infinity !== "kept";
  }

  #isZeroed(value: number): boolean {
    if (value !== 0) return this.#numerics.subnormals !== "kept";
    return Object.is(value, -0) && this.#numerics.signedZero !== "kept";
  }
}

const wide = 2 ** 60;

/** Whether a result may be anything, or must be one value, or lie between two. */
export type Bound =
  | "free"
  | { readonly exact: number; readonly allowed: number; isKept(value: number): boolean };

/**
 * Returns the bound of an element, given its exact value and tolerance, and those for weakened inputs if there are any. `isFloat`
 * is undefined for integers.
 */
export function boundOf(
  [exact, tolerance]: readonly [number, number],
  weakened: readonly [number, number] | undefined,
  dtype: DType,
  numerics: Numerics,
  specials: Specials,
): Bound {
  const format = floatFormats[(dtype === "bf16" ? "f32" : dtype) as FloatType] as
    | (typeof floatFormats)[FloatType]
    | undefined;
  if (!(tolerance < Number.POSITIVE_INFINITY)) return "free";
  let low = exact - tolerance;
  let high = exact + tolerance;
  if (weakened !== undefined && !Object.is(weakened[0], exact)) {
    const [other, otherTolerance] = weakened;
    if (specials.hasUnkept || format === undefined || !Number.isFinite(other - exact)) return "free";
    low = Math.min(low, other - otherTolerance);
    high = Math.max(high, other + otherTolerance);
  }
  if (Number.isNaN(exact)) {
    if (numerics.nan !== "kept" || specials.isWide) return "free";
    return { exact, allowed: 0, isKept: Number.isNaN };
  }
  if (format === undefined) return { exact, allowed: tolerance, isKept: (x) => x >= low && x <= high };
  const { overflow } = format;
  if (numerics.infinity !== "kept" && (high >= overflow || low <= -overflow)) return "free";
  const isSigned = numerics.signedZero === "kept" || Number.isFinite(exact);
  const isKept = (value: number): boolean => {
    if (Number.isFinite(value)) return value >= low && value <= high;
    // Steps on the way may have overflowed, and infinities may have met.
    if (specials.isWide) return true;
    if (value > 0 || (!isSigned && value < 0)) return high >= overflow;
    return value < 0 ? low <= -overflow : false;
  };
  return { exact, allowed: Math.max(high - exact, exact - low), isKept };
}
