import { BackendError, type OperationName, type OperationProblems } from "@backplane/core";
import type { DeviceMemory, KernelDefinition, OperationContext } from "../../runtime/index.js";
import { kernelFits } from "./fit.js";
import { windowBytes } from "./regions.js";

/**
 * An upper bound on the bytes that the sums of parts of a long sum take, whatever its size: a kernel makes no
 * more parts than keep a large GPU busy, of a tile each.
 */
export const PARTIAL_SUM_BYTES: number = 2 ** 26;

/** Enqueues one problem of any size. Its scratch is returned at the end. */
export type Run<Problem> = (context: OperationContext, problem: Problem) => void;

/** How problems of one operation are made smaller. */
export interface Segmentation<Problem> {
  /** Bytes of the longest window that an operand needs; see `windowOf`. */
  longestWindow(problem: Problem): number;
  /**
   * Returns at least as many bytes as the kernels would ever bind at once for scratch. Only problems for
   * which this exceeds the limit are examined closely, which takes the host as long as enqueueing them, so
   * the bound should be close. `longest` is their longest window.
   */
  scratchBound(problem: Problem, longest: number): number;
  /** Runs a problem that does not fit as smaller ones, through `run`, or throws if it cannot be divided. */
  divide(context: OperationContext, problem: Problem, run: Run<Problem>): void;
}

/** The kernels that a division may use. */
export interface SegmentTools<Problem> {
  /** The operation's own, for problems that fit. */
  readonly kernel: KernelDefinition<Problem>;
  /** Whether that is a variant which the caller has forced, so that problems may not suit it. */
  readonly isForced: boolean;
  /** Returns that of another operation, for problems that fit. */
  kernelOf<Name extends OperationName>(name: Name): KernelDefinition<OperationProblems<DeviceMemory>[Name]>;
  /** Enqueues a problem of another operation, of any size. */
  run<Name extends OperationName>(
    name: Name,
    context: OperationContext,
    problem: OperationProblems<DeviceMemory>[Name],
  ): void;
}

/**
 * Returns a kernel for operands of any size. WebGPU binds buffers by windows, of 128 MiB on many devices,
 * while buffers may be larger. Problems whose operands or scratch do not fit into windows are divided on the
 * host. Others are left alone, and cost no more than a look at their operands, unless they are near the limit.
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
  return { supports: kernel.supports, run };
}

/** For a problem that cannot be made any smaller. */
export function indivisible(operation: OperationName, limit: number): BackendError {
  return new BackendError(
    "UNSUPPORTED",
    `${operation}: even its smallest part needs more than the ${limit} bytes that the device binds at once`,
    { operation },
  );
}
