import { dtypeBytes, type FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import type { BinaryProblem } from "../binary/index.js";
import { elements } from "../checks.js";
import { type CopyProblem, conversion } from "../copy/index.js";
import type { GemmProblem } from "../gemm/index.js";
import type { Conv2dProblem } from "./index.js";

/**
 * One of the problems of other operations that a gradient of a convolution consists of, to be carried out in turn. `fill`
 * sets all bytes of a region to 0.
 */
export type GradientStep<Memory> =
  | { readonly operation: "copy"; readonly problem: CopyProblem<Memory> }
  | { readonly operation: "conv2d"; readonly problem: Conv2dProblem<Memory> }
  | { readonly operation: "gemm"; readonly problem: GemmProblem<Memory> }
  | { readonly operation: "binary"; readonly problem: BinaryProblem<Memory> }
  | { readonly operation: "fill"; readonly problem: Region<Memory> };

/** Returns so many bytes of memory for intermediate results. */
export type Scratch<Memory> = (bytes: number) => Region<Memory>;

interface Accumulating<Memory> {
  readonly dtype: FloatType;
  readonly accumulate: boolean;
  readonly outputGradient: Region<Memory>;
}

/** The operand besides the gradient of the output, and the result. */
export interface GradientOperands<Memory> {
  readonly other: Region<Memory>;
  readonly result: Region<Memory>;
}

/**
 * The steps of a gradient that may be added to what the result holds: `overwriting` returns those of one that is not, with
 * the given element type and operands. Sums are f32 until the end, and rounded once.
 */
export function accumulatingSteps<Memory, Problem extends Accumulating<Memory>>(
  problem: Problem,
  { other, result }: GradientOperands<Memory>,
  scratch: Scratch<Memory>,
  overwriting: (
    problem: Problem & { readonly accumulate: false },
    operands: GradientOperands<Memory>,
  ) => readonly GradientStep<Memory>[],
): readonly GradientStep<Memory>[] {
  const { dtype, outputGradient } = problem;
  if (!problem.accumulate) return overwriting({ ...problem, accumulate: false }, { other, result });
  const n = elements(result, dtype);
  const before: GradientStep<Memory>[] = [];
  const widened = (region: Region<Memory>): Region<Memory> => {
    if (dtypeBytes[dtype] === dtypeBytes.f32) return region;
    const count = elements(region, dtype);
    const wide = scratch(4 * count);
    before.push({ operation: "copy", problem: conversion(dtype, "f32", count, region, wide) });
    return wide;
  };
  const wide = {
    ...problem,
    ...{ dtype: "f32" as const, accumulate: false as const, outputGradient: widened(outputGradient) },
  };
  const operands = { other: widened(other), result: scratch(4 * n) };
  const sums = widened(result);
  const sum: BinaryProblem<Memory> = {
    ...{ dtype: "f32", kind: "add", shape: n === 1 ? [] : [n], n },
    a: { region: sums, strides: n === 1 ? [] : [1] },
    b: { region: operands.result, strides: n === 1 ? [] : [1] },
    output: sums,
  };
  return [
    ...before,
    ...overwriting(wide, operands),
    { operation: "binary", problem: sum },
    ...(sums === result
      ? []
      : [{ operation: "copy" as const, problem: conversion("f32", dtype, n, sums, result) }]),
  ];
}

/** A product of matrices, each contiguous: c = op(a) op(b), or that added to c. */
export function gradientProduct<Memory>(
  form: Pick<GemmProblem<Memory>, "dtype" | "m" | "n" | "k" | "transA" | "transB" | "a" | "b" | "c"> & {
    readonly accumulate: boolean;
    /** Default: one product. With it, a is the same for all. */
    readonly batch?: number;
  },
): Extract<GradientStep<Memory>, { readonly operation: "gemm" }> {
  const { dtype, m, n, k, transA, transB, a, b, c, accumulate, batch = 1 } = form;
  return {
    operation: "gemm",
    problem: {
      ...{ dtype, m, n, k, transA, transB, alpha: 1, beta: accumulate ? 1 : 0 },
      ...{ lda: transA ? m : k, ldb: transB ? k : n, ldc: n },
      ...{ batch, strideA: 0, strideB: n * k, strideC: m * n },
      ...{ a, b, c, bias: undefined, activation: undefined },
    },
  };
}
