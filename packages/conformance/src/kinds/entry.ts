import type { FloatType, FloatUnaryKind } from "@backplane/core";

/** The range in which a function is defined and its result representable. */
export interface Domain {
  readonly lowest: number;
  readonly highest: number;
  /** The smallest magnitude other than 0. Default: the smallest normal number. */
  readonly smallest?: number;
  readonly zero?: boolean;
}

/** The interval in which a function rises (1) or falls (-1), as far as callers rely on it. */
export interface Course {
  readonly from: number;
  readonly to: number;
  readonly direction: 1 | -1;
}

/** Between which numbers all elements of an array lie. */
export interface Interval {
  readonly low: number;
  readonly high: number;
}

type Pairs = readonly (readonly [x: number, y: number])[];

/**
 * All that the suite knows of one function of floats: its laws, tolerances, sweeps and the soak follow. What is left out
 * is not known of the function.
 */
export interface UnaryEntry {
  /** The function in double precision, accurate to a few of its units in the last place. */
  readonly compute: (x: number) => number;
  /** The error of f(x) = y in f32 that every backend is granted. Absent: the function is exact. */
  readonly error?: (x: number, y: number) => number;
  /** Where the error is granted. */
  readonly domain: Readonly<Record<FloatType, Domain>>;
  readonly course?: Course;
  /** f(-x) = -f(x), or f(x), bit for bit. */
  readonly mirror?: -1 | 1;
  /** The least and the largest value, which the function has or comes near to. */
  readonly outermost?: readonly [least: number, largest: number];
  /** The granted error may lead beyond them. Where units are declared, results stay between them all the same. */
  readonly mayPassOutermost?: true;
  /** Points that people try first and build on. Squares and the like follow from units below 1. */
  readonly points?: Pairs;
  /** Arguments at which the function is not defined. */
  readonly undefinedAt?: readonly number[];
  /** Results of infinities, and infinite results. */
  readonly limits?: Pairs;
  /** Zeros with a sign, of arguments or results. */
  readonly zeros?: Pairs;
  /** Results of subnormal numbers: the least one, and half the smallest normal one. */
  readonly subnormals?: (least: number, half: number) => Pairs;
  /** For chains of calls: whether the function has no poles and a guaranteed accuracy in a range. Default: always. */
  readonly allows?: (range: Interval) => boolean;
  /** Default: the interval between the results for both ends of the range. */
  readonly image?: (range: Interval) => Interval;
}

export type Entries<Kind extends FloatUnaryKind> = Readonly<Record<Kind, UnaryEntry>>;

/** All that the suite knows of one function of two floats. */
export interface BinaryEntry {
  readonly compute: (a: number, b: number) => number;
  /** The error of f(a, b) = y in f32 that every backend is granted. Absent: the function is exact. */
  readonly error?: (a: number, b: number, y: number) => number;
  /** Rounding to nearest leaves half a unit: the function is one correctly rounded instruction. */
  readonly isRounded?: true;
  /** Takes several steps, the last of which may underflow. */
  readonly steps?: true;
  /** Where the error is granted. Default: everywhere. */
  readonly domain?: (a: number, b: number) => boolean;
  /** Operands, drawn at random, that keep the results in range. Default: as they are. */
  readonly drawn?: (pair: DrawnPair) => readonly [a: number, b: number];
  /** The second operand of the sweep over all exponents, for the first one. */
  readonly second: SecondOperand;
  /** [a, b, f(a, b)] */
  readonly points?: readonly Triple[];
  /** Where the function gives NaN. */
  readonly undefinedAt?: readonly (readonly [a: number, b: number])[];
  /** Pairs with a NaN of which no promise is made are left out. Default: every pair with a NaN gives NaN. */
  readonly nanOf?: readonly (readonly [a: number, b: number])[];
  readonly limits?: (largest: number) => readonly Triple[];
  readonly zeros?: readonly Triple[];
  readonly subnormals?: (least: number, half: number) => readonly Triple[];
  /** For chains of calls. Default: always allowed, and the results are between those of the ends. */
  readonly allows?: (a: Interval, b: Interval) => boolean;
  readonly image?: (a: Interval, b: Interval) => Interval;
}

export type Triple = readonly [a: number, b: number, y: number];

export interface DrawnPair {
  readonly a: number;
  readonly b: number;
  readonly index: number;
  readonly seed: number;
  readonly dtype: FloatType;
  readonly next: () => number;
}

/** `target` draws an exponent, with a fraction, that the result is to have. */
export type SecondOperand = (x: number, target: () => number, next: () => number, index: number) => number;
