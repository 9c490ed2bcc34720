import { dtypeBytes } from "@backplane/core";
import { type OperationContext, WINDOW_ALIGNMENT } from "../../runtime/index.js";
import { storeRounded } from "../halves.js";
import {
  indivisible,
  middleOf,
  PARTIAL_SUM_BYTES,
  type Segmentation,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { mostSums } from "./matrix-tile.js";
import { columnsOf, joinParts, mostFewRows, type Problem, runFewRows } from "./quantized-gemm.js";

/** Cuts rows of A and of B. What is left after that is one sum, of parts of k. */
export const segments: Segmentation<Problem> = {
  longestWindow: ({ a, b, scales, zeroPoints, bias, c }) =>
    Math.max(
      ...[windowOf(a), windowOf(b), windowOf(scales), windowOf(c)],
      ...[zeroPoints === undefined ? 0 : windowOf(zeroPoints), bias === undefined ? 0 : windowOf(bias)],
    ),
  // Results in f32, or parts of their sums; or weights, of which gemm may make copies, and its parts of sums.
  scratchBound: ({ m, n, bits, block, blocks }, longest) =>
    m <= mostFewRows
      ? 4 * mostSums(m, n)
      : Math.max(8 * longest, 8 * n * blocks * block * (bits / 8), PARTIAL_SUM_BYTES),

  divide(context, problem, run) {
    const { m, n, a, c } = problem;
    const isTall = Math.max(windowOf(a), windowOf(c)) > windowBytes(context.features);
    if (m > 1 && (isTall || n === 1)) {
      const middle = middleOf(m);
      run(context, rowsOf(problem, 0, middle));
      run(context, rowsOf(problem, middle, m - middle));
    } else if (n > 1) {
      const middle = middleOf(n);
      run(context, columnsOf(problem, 0, middle));
      run(context, columnsOf(problem, middle, n - middle));
    } else oneSum(context, problem);
  },
};

/** Some rows of A and C. */
function rowsOf(problem: Problem, first: number, count: number): Problem {
  const { dtype, n, k, a, c, pitch = n } = problem;
  return {
    ...problem,
    m: count,
    pitch,
    a: sliceOf(a, dtype, first * k, count * k),
    c: sliceOf(c, dtype, first * pitch, (count - 1) * pitch + n),
  };
}

/** One row of A, one of B: sums of parts that windows show, which are then added up. */
function oneSum(context: OperationContext, problem: Problem): void {
  const { dtype, scaleType, bits, block, k, a, b, scales, zeroPoints, c } = problem;
  const limit = windowBytes(context.features);
  const most = Math.floor((limit - WINDOW_ALIGNMENT) / Math.max(dtypeBytes[dtype], bits / 8) / block);
  if (most < 1) throw indivisible("quantizedGemm", limit);
  const depth = most * block;
  const parts = Math.ceil(k / depth);
  context.scoped((inner) => {
    const sums = inner.scratch(4 * parts);
    for (let i = 0; i < parts; i++) {
      const count = Math.min(depth, k - i * depth);
      const blocks = Math.ceil(count / block);
      const bytes = (block * bits) / 8;
      const part: Problem = {
        ...{ ...problem, k: count, blocks, beta: 0, bias: undefined, activation: undefined },
        a: sliceOf(a, dtype, i * depth, count),
        b: sliceOf(b, "u8", i * most * bytes, blocks * bytes),
        scales: sliceOf(scales, scaleType, i * most, blocks),
        zeroPoints: zeroPoints && sliceOf(zeroPoints, "u8", i * most, blocks),
      };
      runFewRows(inner, part, { region: sliceOf(sums, "f32", i, 1), pitch: 1, target: "single" });
    }
    const store = storeRounded[dtype];
    const result = store === undefined ? c : inner.scratch(4);
    joinParts(inner, problem, sums, parts, { region: result, pitch: 1, target: "single" });
    store?.(inner, result, c, { batch: 1, rows: 1, columns: 1 });
  });
}
