import type { ArithmeticKind, BitKind, ComparisonKind, IntegerType, LogicalKind } from "@backplane/core";
import { arithmetic } from "./binary-arithmetic.js";
import type { BinaryEntry } from "./entry.js";

/** The one table of functions of two floats. */
export const binaryEntries: Readonly<Record<ArithmeticKind, BinaryEntry>> = arithmetic;

/** 1 or 0. */
export const comparisons: Readonly<Record<ComparisonKind, (a: number, b: number) => number>> = {
  equal: (a, b) => Number(a === b),
  notEqual: (a, b) => Number(a !== b),
  less: (a, b) => Number(a < b),
  lessEqual: (a, b) => Number(a <= b),
  greater: (a, b) => Number(a > b),
  greaterEqual: (a, b) => Number(a >= b),
};

/** On truth values: 0 is false and all else true. */
export const logicalFunctions: Readonly<Record<LogicalKind, (a: number, b: number) => number>> = {
  logicalAnd: (a, b) => Number(a !== 0 && b !== 0),
  logicalOr: (a, b) => Number(a !== 0 || b !== 0),
  logicalXor: (a, b) => Number((a !== 0) !== (b !== 0)),
};

/** The kinds of binary that integers have, besides comparisons. */
export type IntegerKind = Exclude<ArithmeticKind, "pow" | "atan2"> | BitKind;

type Integers = Readonly<Record<IntegerKind, (a: number, b: number) => number>>;

/** On whole numbers of the type; wraps around. */
export const integerFunctions: Readonly<Record<IntegerType, Integers>> = {
  i32: { ...wrapping((value) => value | 0), shr: (a, b) => a >> Math.min(b >>> 0, 31) },
  u32: { ...wrapping((value) => value >>> 0), shr: (a, b) => (b < 32 ? a >>> b : 0) },
};

function wrapping(wrap: (value: number) => number): Omit<Integers, "shr"> {
  return {
    // Sums of two are exact in double precision; of products imul has the low bits.
    add: (a, b) => wrap(a + b),
    sub: (a, b) => wrap(a - b),
    mul: (a, b) => wrap(Math.imul(a, b)),
    // So is the quotient before its fraction goes: the nearest double of no quotient of 32 bits is a whole number.
    div: (a, b) => (b === 0 ? 0 : wrap(Math.trunc(a / b))),
    floorDiv: (a, b) => (b === 0 ? 0 : wrap(Math.floor(a / b))),
    rem: (a, b) => (b === 0 ? 0 : wrap(a % b)),
    mod: (a, b) => (b === 0 ? 0 : wrap(((a % b) + b) % b)),
    max: Math.max,
    min: Math.min,
    and: (a, b) => wrap(a & b),
    or: (a, b) => wrap(a | b),
    xor: (a, b) => wrap(a ^ b),
    shl: (a, b) => (b >= 0 && b < 32 ? wrap(a << b) : 0),
  };
}
