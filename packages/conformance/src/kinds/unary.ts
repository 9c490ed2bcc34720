import type { FloatUnaryKind, IntegerType, TestKind } from "@backplane/core";
import type { UnaryEntry } from "./entry.js";
import { activations } from "./unary-activations.js";
import { exponentials } from "./unary-exponentials.js";
import { steps } from "./unary-steps.js";
import { hyperbolics, turns } from "./unary-turns.js";

/** The one table of unary functions of floats. */
export const unaryEntries: Readonly<Record<FloatUnaryKind, UnaryEntry>> = {
  ...steps,
  ...exponentials,
  ...turns,
  ...hyperbolics,
  ...activations,
};

/** 1 or 0. */
export const tests: Readonly<Record<TestKind, (x: number) => number>> = {
  isNaN: (x) => Number(Number.isNaN(x)),
  isInfinite: (x) => Number(Math.abs(x) === Number.POSITIVE_INFINITY),
  isFinite: (x) => Number(Number.isFinite(x)),
};

/** The kinds of unary that integers have. */
export type IntegerUnaryKind = "abs" | "neg" | "square" | "sign" | "not";

type Integers = Readonly<Record<IntegerUnaryKind, (x: number) => number>>;

/** On whole numbers of the type; wraps around. */
export const integerUnaryFunctions: Readonly<Record<IntegerType, Integers>> = {
  i32: wrapping((value) => value | 0),
  u32: wrapping((value) => value >>> 0),
};

function wrapping(wrap: (value: number) => number): Integers {
  return {
    abs: (x) => wrap(Math.abs(x)),
    neg: (x) => wrap(-x),
    // Of products imul has the low bits.
    square: (x) => wrap(Math.imul(x, x)),
    sign: Math.sign,
    not: (x) => wrap(~x),
  };
}

/** On truth values: 0 is false and all else true. */
export const logicalUnaryFunctions: Readonly<Record<"logicalNot", (x: number) => number>> = {
  logicalNot: (x) => Number(x === 0),
};
