import { type BinaryProblem, isComparison } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { throughEnd } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { referenceMemory } from "../operation.js";
import { evaluateAs } from "./formula.js";

type Problem = BinaryProblem<ReferenceMemory>;

const isInteger = ({ dtype, kind }: Problem) => (dtype === "i32" || dtype === "u32") && !isComparison(kind);

/** Defects of comparisons and of integer arithmetic. */
export const exactMutants = ({ replaced, tampered }: Builder): readonly Mutant[] => {
  /** Replaces one function where `applies`. */
  const computing = (
    applies: (p: Problem) => boolean,
    apply: (p: Problem) => (a: number, b: number) => number,
  ) => replaced("binary", (p, run) => (applies(p) ? evaluateAs(apply(p), p, referenceMemory) : run(p)));
  return [
    {
      name: "saturates sums of integers",
      operation: "binary",
      defect: "numerics",
      description: "Clamps where it must wrap around.",
      killedBy: ["binary i32: add: is exact"],
      create: () =>
        computing(
          (p) => p.dtype === "i32" && p.kind === "add",
          () => (a, b) => Math.min(Math.max(a + b, -(2 ** 31)), 2 ** 31 - 1),
        ),
    },
    {
      name: "multiplies integers as f32",
      operation: "binary",
      defect: "numerics",
      description: "Right for small numbers, and for products up to 2^24.",
      killedBy: ["binary i32: mul: is exact", "binary u32: mul: is exact"],
      create: () =>
        computing(
          (p) => isInteger(p) && p.kind === "mul",
          () => (a, b) => Math.fround(Math.fround(a) * Math.fround(b)),
        ),
    },
    {
      name: "divides integers towards minus infinity",
      operation: "binary",
      defect: "numerics",
      description: "Right until one side is negative.",
      killedBy: ["binary i32: div: is exact"],
      create: () =>
        computing(
          (p) => p.dtype === "i32" && p.kind === "div",
          () => (a, b) => (b === 0 ? 0 : Math.floor(a / b)),
        ),
    },
    {
      name: "gives the dividend for a division by 0",
      operation: "binary",
      defect: "edge",
      description: "What WGSL does where nobody guards it.",
      killedBy: ["binary i32: div: is exact", "binary u32: div: is exact"],
      create: () =>
        computing(
          (p) => isInteger(p) && p.kind === "div",
          () => (a, b) => (b === 0 ? a : Math.trunc(a / b)),
        ),
    },
    {
      name: "takes a remainder for a floored one",
      operation: "binary",
      defect: "numerics",
      description: "The sign of the dividend, where it must be that of the divisor.",
      killedBy: ["binary i32: mod: is exact"],
      create: () =>
        computing(
          (p) => p.dtype === "i32" && p.kind === "mod",
          () => (a, b) => (b === 0 ? 0 : (a % b) | 0),
        ),
    },
    {
      name: "rounds the quotient of a remainder",
      operation: "binary",
      defect: "numerics",
      description: "a - b trunc(a / b) in f32, as WGSL defines it: right for small quotients.",
      killedBy: ["binary f32: rem: stays within its error bound"],
      create: () =>
        computing(
          (p) => p.dtype === "f32" && p.kind === "rem",
          () => (a, b) => Math.fround(a - Math.fround(b * Math.trunc(Math.fround(a / b)))),
        ),
    },
    {
      name: "shifts by the last five bits",
      operation: "binary",
      defect: "edge",
      description: "What processors do with a shift by 32.",
      killedBy: ["binary i32: shl: is exact", "binary u32: shl: is exact"],
      create: () =>
        computing(
          (p) => p.kind === "shl",
          (p) => (a, b) => (p.dtype === "i32" ? a << b : (a << b) >>> 0),
        ),
    },
    {
      name: "shifts zeros into negative integers",
      operation: "binary",
      defect: "numerics",
      description: "One instruction for both types.",
      killedBy: ["binary i32: shr: is exact"],
      create: () =>
        computing(
          (p) => p.dtype === "i32" && p.kind === "shr",
          () => (a, b) => (b >= 0 && b < 32 ? (a >>> b) | 0 : 0),
        ),
    },
    {
      name: "combines truth values bit by bit",
      operation: "binary",
      defect: "numerics",
      description: "1 and 2 are both true, and have no bit in common.",
      killedBy: ["binary u8: logicalAnd: is exact"],
      create: () =>
        computing(
          (p) => p.kind === "logicalAnd",
          () => (a, b) => Number((a & b) !== 0),
        ),
    },
    {
      name: "compares signed integers as unsigned",
      operation: "binary",
      defect: "numerics",
      description: "One instruction for both types.",
      killedBy: ["binary i32: less: is exact"],
      create: () =>
        computing(
          (p) => p.dtype === "i32" && p.kind === "less",
          () => (a, b) => Number(a >>> 0 < b >>> 0),
        ),
    },
    {
      name: "compares integers as f32",
      operation: "binary",
      defect: "numerics",
      description: "2^24 and 2^24 + 1 come out equal.",
      killedBy: ["binary i32: equal: is exact", "binary u32: equal: is exact"],
      create: () =>
        computing(
          (p) => p.dtype !== "f16" && p.dtype !== "f32" && p.kind === "equal",
          () => (a, b) => Number(Math.fround(a) === Math.fround(b)),
        ),
    },
    {
      name: "gives 255 for true",
      operation: "binary",
      defect: "numerics",
      description: "The mask of a vector instruction, stored as it is.",
      killedBy: ["binary f32: equal: is exact"],
      create: () =>
        computing(
          (p) => p.kind === "equal",
          () => (a, b) => (a === b ? 255 : 0),
        ),
    },
    {
      name: "takes -0 for less than 0",
      operation: "binary",
      defect: "edge",
      description: "Compares bits, ordered as integers.",
      killedBy: ["binary f32: less: is exact", "binary f16: less: is exact"],
      create: () =>
        computing(
          (p) => p.kind === "less",
          () => (a, b) => Number(a < b || (Object.is(a, -0) && Object.is(b, 0))),
        ),
    },
    {
      name: "stores whole words of truth values",
      operation: "binary",
      defect: "edge",
      description: "Four results to a word, the last word beyond the end.",
      killedBy: ["binary f32: comparisons touch nothing but the elements of their output"],
      create: () =>
        replaced("binary", (p, run) => {
          run(p);
          if (!isComparison(p.kind)) return;
          const store = storeInto(throughEnd(p.output, "u8"), "u8");
          for (let i = p.n; i % 4 !== 0; i++) store(i, 0);
        }),
    },
    {
      name: "takes the opposite of less for greater or equal",
      operation: "binary",
      defect: "numerics",
      description: "NaN is then greater than or equal to everything.",
      killedBy: ["numerics f32: binary: compares NaN with nothing"],
      create: () =>
        computing(
          (p) => p.kind === "greaterEqual",
          () => (a, b) => Number(!(a < b)),
        ),
    },
    {
      name: "rounds a scalar of integers to f32",
      operation: "binary",
      defect: "numerics",
      description: "The one parameter that every kernel has is a float.",
      killedBy: ["binary i32: add: is exact"],
      create: () =>
        tampered("binary", (p) =>
          "scalar" in p.b && isInteger(p) ? { ...p, b: { scalar: Math.fround(p.b.scalar) } } : p,
        ),
    },
    {
      name: "repeats a truth value four times",
      operation: "binary",
      defect: "indexing",
      description: "Writes the word of the first of four results.",
      killedBy: ["binary f32: equal: is exact"],
      create: () =>
        replaced("binary", (p, run) => {
          run(p);
          if (!isComparison(p.kind)) return;
          const values = load(p.output, "u8");
          const store = storeInto(p.output, "u8");
          for (const i of values.keys()) store(i, values[i - (i % 4)]!);
        }),
    },
  ];
};
