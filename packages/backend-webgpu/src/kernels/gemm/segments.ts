import type { FloatType, GemmProblem } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import type {
  BufferRegion,
  DeviceMemory,
  KernelContext,
  KernelDefinition,
  OperationContext,
} from "../../runtime/index.js";
import { type StoreRounded, storeRounded } from "../halves.js";
import {
  indivisible,
  kernelFits,
  middleOf,
  move,
  PARTIAL_SUM_BYTES,
  placeholder,
  type Run,
  type Segmentation,
  type SegmentTools,
  scratchBytes,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { type StoredOperand, storedOperand } from "./stored.js";

type Problem = GemmProblem<DeviceMemory>;
type Kernel = KernelDefinition<Problem>;

/** Element types of the stored operands (the bias has that of C). They override the problem's own `dtype`. */
export interface Stored {
  readonly a: FloatType;
  readonly b: FloatType;
  readonly c: FloatType;
}

const axes = ["batch", "m", "n", "k"] as const;
type Axis = (typeof axes)[number];
const operands = ["a", "b", "c"] as const;
type Name = (typeof operands)[number];

/**
 * Cuts batch, m and n into problems of their own, and k into parts that are added up in f32: in C itself, or
 * in scratch if C is of another type.
 */
export function gemmSegments({ kernel, isForced }: SegmentTools<Problem>): Segmentation<Problem> {
  return {
    longestWindow: ({ a, b, c, bias }) =>
      Math.max(windowOf(a), windowOf(b), windowOf(c), bias === undefined ? 0 : windowOf(bias)),
    // Copies, padded: single columns become eight, and single rows a tile, but only if that kernel is forced.
    scratchBound: (_problem, longest) => Math.max((isForced ? 256 : 8) * longest, PARTIAL_SUM_BYTES),

    divide(context, problem, run) {
      const { dtype } = problem;
      const stored: Stored = { a: dtype, b: dtype, c: dtype };
      const store = storeRounded[dtype];
      if (store === undefined) {
        divideStored(context, problem, stored, run);
        return;
      }
      const axis = chooseAxis(context, problem, stored);
      if (axis === "k") throughSums(context, kernel, problem, store);
      else for (const part of halves(problem, stored, axis)) run(context, part);
    },
  };
}

/** A product with an f32 result of operands that may be of another type, and of any size. Adds to C if beta is 1. */
export function runMixed(context: OperationContext, kernel: Kernel, problem: Problem, stored: Stored): void {
  const fits =
    excess(problem, stored, context.features) === 0 &&
    kernelFits(
      context,
      kernel,
      widened(problem, stored, ({ elements }) => placeholder(4 * elements)),
    );
  if (!fits) {
    divideStored(context, problem, stored, (next, part) => runMixed(next, kernel, part, stored));
    return;
  }
  context.scoped((inner) => {
    const compact = widened(problem, stored, (operand, dtype) => {
      const copy = inner.scratch(4 * operand.elements);
      const { batch, rows, columns, step, ld } = operand;
      move(inner, copy, operand.region, dtype, [
        { extent: batch, from: step, to: rows * columns },
        { extent: rows, from: ld, to: columns },
        { extent: columns, from: 1, to: 1 },
      ]);
      return copy;
    });
    kernel.run(inner, compact);
  });
}

/** Sums of the parts of k in f32 scratch, with one rounding at the end. C and the sums fit. */
function throughSums(context: OperationContext, kernel: Kernel, problem: Problem, store: StoreRounded): void {
  const { dtype, m, n, batch, beta, c, ldc, strideC, bias } = problem;
  context.scoped((inner) => {
    const sums = inner.scratch(4 * batch * m * n);
    if (beta !== 0)
      move(inner, sums, c, dtype, [
        { extent: batch, from: strideC, to: m * n },
        { extent: m, from: ldc, to: n },
        { extent: n, from: 1, to: 1 },
      ]);
    const wideBias = bias && inner.scratch(4 * n);
    if (bias && wideBias) move(inner, wideBias, bias, dtype, [{ extent: n, from: 1, to: 1 }]);
    const mixed = { ...problem, c: sums, ldc: n, strideC: m * n, bias: wideBias };
    runMixed(inner, kernel, mixed, { a: dtype, b: dtype, c: "f32" });
    const layout = { batch, rows: m, columns: n, rowStride: ldc };
    store(inner, sums, c, batch === 1 ? layout : { ...layout, batchStride: strideC });
  });
}

/**
 * Only for f32 results: each part of k after the first adds to the result of the one before it. The last one
 * has the epilogue.
 */
function divideStored(context: OperationContext, problem: Problem, stored: Stored, run: Run<Problem>): void {
  const axis = chooseAxis(context, problem, stored);
  const [first, second] = halves(problem, stored, axis);
  run(context, axis === "k" ? { ...first, bias: undefined, activation: undefined } : first);
  run(context, axis === "k" ? { ...second, beta: 1 } : second);
}

interface Matrices extends StoredOperand {
  readonly batch: number;
  /** Elements of all matrices, without the gaps between rows and matrices. */
  readonly elements: number;
}

function matrices(problem: Problem, name: Name): Matrices {
  const stored = storedOperand(problem, name);
  const batch = stored.step === 0 ? 1 : problem.batch;
  return { ...stored, batch, elements: batch * stored.rows * stored.columns };
}

/** Returns the problem in f32, with compact copies of A and B if they are of another type. */
function widened(
  problem: Problem,
  stored: Stored,
  copy: (operand: Matrices, dtype: FloatType) => BufferRegion,
): Problem {
  let wide: Problem = { ...problem, dtype: "f32" };
  if (isCopied(problem, stored, "a")) {
    const operand = matrices(problem, "a");
    const { rows, columns, step } = operand;
    wide = { ...wide, a: copy(operand, stored.a), lda: columns, strideA: step === 0 ? 0 : rows * columns };
  }
  if (isCopied(problem, stored, "b")) {
    const operand = matrices(problem, "b");
    const { rows, columns, step } = operand;
    wide = { ...wide, b: copy(operand, stored.b), ldb: columns, strideB: step === 0 ? 0 : rows * columns };
  }
  return wide;
}

/** Elements from one index of an axis to the next. */
function strideAlong(problem: Problem, name: Name, axis: Axis): number {
  const { transA, transB, lda, ldb, ldc, strideA, strideB, strideC } = problem;
  return {
    a: { batch: strideA, m: transA ? 1 : lda, n: 0, k: transA ? lda : 1 },
    b: { batch: strideB, m: 0, n: transB ? ldb : 1, k: transB ? 1 : ldb },
    c: { batch: strideC, m: ldc, n: 1, k: 0 },
  }[name][axis];
}

/** Returns the part of the problem at [first, end) of an axis. */
export function partOf(problem: Problem, stored: Stored, axis: Axis, first: number, end: number): Problem {
  const part = { ...problem, [axis]: end - first };
  const region = (name: Name): BufferRegion => {
    if (problem.k === 0 && name !== "c") return problem[name];
    const { batch, rows, columns, ld, step } = matrices(part, name);
    const extent = (batch - 1) * step + (rows - 1) * ld + columns;
    return sliceOf(problem[name], stored[name], first * strideAlong(problem, name, axis), extent);
  };
  const { bias } = problem;
  return {
    ...{ ...part, a: region("a"), b: region("b"), c: region("c") },
    bias: bias && axis === "n" ? sliceOf(bias, stored.c, first, end - first) : bias,
  };
}

function halves(problem: Problem, stored: Stored, axis: Axis): readonly [Problem, Problem] {
  const middle = middleOf(problem[axis]);
  return [partOf(problem, stored, axis, 0, middle), partOf(problem, stored, axis, middle, problem[axis])];
}

/** How far the operands are from fitting: the sum of the doublings that they are too long by. */
function excess(problem: Problem, stored: Stored, features: DeviceFeatures): number {
  const doublings = (times: number) => Math.max(Math.log2(times), 0);
  const windows = windowBytes(features);
  const { bias } = problem;
  const ofBias = bias === undefined ? 0 : doublings(windowOf(bias) / windows);
  return operands
    .map((name) => {
      const copy = isCopied(problem, stored, name) ? 4 * matrices(problem, name).elements : 0;
      return doublings(Math.max(windowOf(problem[name]) / windows, copy / scratchBytes(features)));
    })
    .reduce((sum, one) => sum + one, ofBias);
}

/** Whether the operand is widened to f32 before the product. */
function isCopied(problem: Problem, stored: Stored, name: Name): boolean {
  return name !== "c" && problem.k > 0 && stored[name] !== "f32" && stored.c === "f32";
}

/**
 * Returns the axis along which a cut brings the operands nearest to fitting; among equals the first of
 * `axes`. If they fit, and only scratch is too long, cuts the results.
 */
function chooseAxis({ features }: KernelContext, problem: Problem, stored: Stored): Axis {
  const possible = axes.filter((axis) => problem[axis] > 1);
  const { batch, m, n, c } = problem;
  const sumsFit =
    stored.c === "f32" ||
    (windowOf(c) <= windowBytes(features) && 4 * batch * m * n <= scratchBytes(features));
  let best: Axis | undefined;
  let least = excess(problem, stored, features) - 1e-9;
  for (const axis of possible) {
    const left = excess(partOf(problem, stored, axis, 0, middleOf(problem[axis])), stored, features);
    if (left < least - 1e-9) [best, least] = [axis, left];
  }
  if (best !== undefined && (best !== "k" || sumsFit)) return best;
  // Sums of the parts of k need all results at once in f32.
  const results = possible.filter((axis) => axis !== "k");
  const longest = (["m", "n"] as const)[m >= n ? 0 : 1];
  const choice = results.includes("batch") ? "batch" : results.includes(longest) ? longest : possible[0];
  if (choice === undefined) throw indivisible("gemm", windowBytes(features));
  return choice;
}
