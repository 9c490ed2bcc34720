import type { BinaryKind, DType, FloatType, Numerics, OperationName, UnaryKind } from "@backplane/core";
import { floatFormats, storages } from "../elements.js";

/*
 * What a result may be is not always known: backends differ in the numbers that they keep. This file finds the numbers that
 * matter among the inputs of a call, and the elements that depend on them.
 */

const exactUnary: readonly UnaryKind[] = [
  ...(["neg", "abs", "relu", "sign", "square"] as const),
  ...(["floor", "ceil", "round", "trunc"] as const),
];
const exactBinary: readonly BinaryKind[] = ["add", "sub", "mul", "max", "min"];
const extremes = ["max", "min"];

/** Operations that move numbers, or take one step in IEEE arithmetic to each result. Those without a list do so for all kinds. */
const oneStep: Readonly<Partial<Record<OperationName, readonly string[] | undefined>>> = {
  ...{ unary: exactUnary, binary: exactBinary, reduce: extremes, scan: extremes },
  ...{
    scatter: ["set", ...extremes],
    copy: undefined,
    gather: undefined,
    select: undefined,
    sort: undefined,
  },
};

/** Whether nothing can overflow on the way to a result of this call, so that infinities and large numbers are as any other. */
export function isOneStep(operation: OperationName, kind: unknown): boolean {
  if (!Object.hasOwn(oneStep, operation)) return false;
  return oneStep[operation]?.includes(kind as string) ?? true;
}

/** The exact value of an element and its tolerance. */
export type Element = readonly [value: number, tolerance: number];

/** What the inputs of a call have that not every backend keeps, or that may overflow on the way to a result. */
export class Specials {
  readonly #numerics: Numerics;
  readonly isOneStep: boolean;
  /** Numbers without a meaning that both backends declare: NaN or infinities. */
  hasUnkept = false;
  /** Numbers that a backend may read as (another) zero. */
  hasZeroes = false;
  /** Operands with infinities or large numbers, so that a square, or a product of two, may leave the range of f32. */
  #hasWide = false;
  /** The same for what belongs to all elements: arguments that are no operands, and products of all inputs. */
  #isWide = false;
  #hasUnkeptArgument = false;

  constructor(numerics: Numerics, isOneStep: boolean) {
    this.#numerics = numerics;
    this.isOneStep = isOneStep;
  }

  note(values: Float64Array, dtype: DType, isMask: boolean): void {
    const { smallestNormal } = storages[dtype];
    for (const value of values) {
      const size = Math.abs(value);
      if (!(size <= wide)) {
        // Not NaN.
        if (size > wide) this.#hasWide = true;
        if (this.#isUnkept(value) && !(isMask && value === Number.NEGATIVE_INFINITY)) this.hasUnkept = true;
      } else if (size < smallestNormal && this.#isZeroed(value)) this.hasZeroes = true;
    }
  }

  /** Looks for NaN and infinities in arguments that are no operands. */
  noteArguments(value: unknown): void {
    if (typeof value === "number") {
      if (Math.abs(value) > wide) this.#isWide = true;
      if (!this.#isUnkept(value)) return;
      this.hasUnkept = true;
      this.#hasUnkeptArgument = true;
    } else if (typeof value === "object" && value !== null)
      for (const entry of Object.values(value)) this.noteArguments(entry);
  }

  /** Notes the factors of products without a bound on their number. */
  noteFactors(values: Float64Array): void {
    let bits = 0;
    for (const value of values) bits += Math.max(0, Math.log2(Math.abs(value)));
    if (!(bits < 100)) this.#isWide = true;
  }

  /** Whether `mayLeaveRange` must know which elements depend on the inputs that matter. */
  get needsProbe(): boolean {
    return this.hasUnkept || (this.#hasWide && !this.isOneStep);
  }

  /** Returns the inputs with NaN for each that matters: results that stay the same do not depend on these. */
  probed(values: Float64Array): Float64Array<ArrayBuffer> {
    const matters = (value: number): boolean =>
      this.#isUnkept(value) || (!this.isOneStep && Math.abs(value) > wide);
    return Float64Array.from(values, (value) => (matters(value) ? Number.NaN : value));
  }

  /** Whether steps on the way to an element may leave the range of f32, or infinities may meet, or NaN is read that is not kept. */
  mayLeaveRange([exact, tolerance]: Element, probed: Element | undefined): boolean {
    if (this.#hasUnkeptArgument) return true;
    if (!this.isOneStep) {
      if (this.#isWide) return true;
      // Which of several inputs an exact NaN is from cannot be told.
      if (Number.isNaN(exact)) return this.#hasWide;
    }
    return probed !== undefined && !(Object.is(probed[0], exact) && Object.is(probed[1], tolerance));
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
 * Returns the bound of an element, given what it is exactly, for weakened inputs and for probed ones, if there are any.
 */
export function boundOf(
  element: Element,
  weakened: Element | undefined,
  probed: Element | undefined,
  dtype: DType,
  numerics: Numerics,
  specials: Specials,
): Bound {
  // Undefined for integers.
  const format = floatFormats[(dtype === "bf16" ? "f32" : dtype) as FloatType] as
    | (typeof floatFormats)[FloatType]
    | undefined;
  const [exact] = element;
  const tolerance = toleranceOf(element, specials.isOneStep);
  if (!(tolerance < Number.POSITIVE_INFINITY)) return "free";
  let low = exact - tolerance;
  let high = exact + tolerance;
  if (weakened !== undefined && !Object.is(weakened[0], exact)) {
    const [other, otherTolerance] = weakened;
    if (specials.hasUnkept || format === undefined || !Number.isFinite(other - exact)) return "free";
    low = Math.min(low, other - otherTolerance);
    high = Math.max(high, other + otherTolerance);
  }
  const mayLeaveRange = specials.mayLeaveRange(element, probed);
  if (Number.isNaN(exact)) {
    if (numerics.nan !== "kept" || mayLeaveRange) return "free";
    return { exact, allowed: 0, isKept: Number.isNaN };
  }
  if (format === undefined) return { exact, allowed: tolerance, isKept: (x) => x >= low && x <= high };
  const { overflow } = format;
  if (numerics.infinity !== "kept" && (high >= overflow || low <= -overflow)) return "free";
  const isSigned = numerics.signedZero === "kept" || Number.isFinite(exact);
  const isKept = (value: number): boolean => {
    if (Number.isFinite(value)) return value >= low && value <= high;
    if (mayLeaveRange) return true;
    if (value > 0 || (!isSigned && value < 0)) return high >= overflow;
    return value < 0 ? low <= -overflow : false;
  };
  return { exact, allowed: Math.max(high - exact, exact - low), isKept };
}

/** Formulas give Infinity for what may be anything. Computed from a NaN or an infinity, a tolerance says nothing. */
function toleranceOf([exact, tolerance]: Element, isOneStep: boolean): number {
  const isWithout = isOneStep ? !Number.isFinite(exact) : Number.isNaN(exact) && Number.isNaN(tolerance);
  return isWithout ? 0 : tolerance;
}
