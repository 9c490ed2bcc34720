import { BackendError, type OperationName } from "@backplane/core";
import type { KernelDefinition, OperationContext } from "../../runtime/index.js";
import { kernelFits } from "./fit.js";
import { windowBytes } from "./regions.js";

/**
 * More bytes than the sums of parts of a long sum take, whatever its size: a kernel makes no more parts than
 * keep a large GPU busy, of a tile each.
 */
export const PARTIAL_SUM_BYTES: number = 2 ** 26;

/** Enqueues one problem, whatever its size. Its scratch is given back when it returns. */
export type Run<Problem> = (context: OperationContext, problem: Problem) => void;

/** How problems of one operation are made smaller. */
export interface Segmentation<Problem> {
  /** Bytes of the longest window that an operand needs; see `windowOf`. */
  longestWindow(problem: Problem): number;
  /**
   * At least as many bytes as the kernels would ever bind at once for scratch. Only problems where that is above
   * the limit are looked at closely, which takes the host as long as to enqueue them: so it should be near.
   * `longest` is their longest window.
   */
  scratchBound(problem: Problem, longest: number): number;
  /** Does a problem that does not fit by way of smaller ones, which are given to `run`, or else throws. */
  divide(context: OperationContext, problem: Problem, run: Run<Problem>): void;
}

/**
 * A kernel for operands of any size. WebGPU binds buffers by windows, of 128 MiB on many devices, while
 * buffers may be larger: problems whose operands or scratch do not fit into windows are divided on the
 * host. What fits is left alone, and costs no more than a look at its operands, unless it is near the limit.
 */
export function segmented<Problem>(
  kernel: KernelDefinition<Problem>,
  segmentation: Segmentation<Problem>,
): KernelDefinition<Problem, OperationContext> {
  const run: Run<Problem> = (context, problem) => {
    const limit = windowBytes(context.features);
    const longest = segmentation.longestWindow(problem);
    const isSmall = longest <= limit && segmentation.scratchBound(problem, longest) <= limit;
    if (isSmall || (longest <= limit && kernelFits(context, kernel, problem))) kernel.run(context, problem);
    else segmentation.divide(context, problem, runPart);
  };
  const runPart: Run<Problem> = (context, problem) => context.scoped((inner) => run(inner, problem));
  return { ...kernel, run };
}

/** For a problem that cannot be made any smaller. */
export function indivisible(operation: OperationName, limit: number): BackendError {
  return new BackendError(
    "UNSUPPORTED",
    `${operation}: even its smallest part needs more than the ${limit} bytes that the device binds at once`,
    { operation },
  );
}
