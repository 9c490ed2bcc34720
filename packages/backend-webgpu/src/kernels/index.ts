import {
  type DriverKernels,
  type Kernel,
  type OperationName,
  type OperationProblems,
  operations,
} from "@backplane/core";
import type { DeviceMemory, KernelDefinition, OperationContext } from "../runtime/index.js";
import { attentionKernel } from "./attention/index.js";
import { binary } from "./binary/index.js";
import { convKernel } from "./conv2d/index.js";
import type { ForcedVariants } from "./forced.js";
import { gemmKernel } from "./gemm/index.js";
import { reduce } from "./reduce/index.js";
import {
  attentionSegments,
  binarySegments,
  convSegments,
  gemmSegments,
  reduceSegments,
  segmented,
  unarySegments,
} from "./segments/index.js";
import { unary } from "./unary/index.js";

export { type AttentionShape, attentionVariants } from "./attention/index.js";
export { type ConvShape, convVariants } from "./conv2d/index.js";
export { type ForcedVariants, forcedDetails } from "./forced.js";
export { type GemmShape, gemmVariants, splittingDetails } from "./gemm/index.js";
export { ownKernel } from "./own.js";
export { type ReduceLoads, reduceVariants } from "./reduce/index.js";
export { choiceLog, observeChoices } from "./variant.js";

export type Kernels = {
  readonly [Name in OperationName]?: KernelDefinition<
    OperationProblems<DeviceMemory>[Name],
    OperationContext
  >;
};

/**
 * Returns a kernel for every operation that the backend has, for operands of any size. `segmented` adds the
 * division of operands that do not fit into one binding.
 */
export function kernelsWith(forced: ForcedVariants): Kernels {
  const gemmAsItFits = gemmKernel(forced.gemm);
  const convAsItFits = convKernel(forced.conv2d);
  const gemm = segmented(gemmAsItFits, gemmSegments(gemmAsItFits, forced.gemm !== undefined));
  const anyBinary = segmented(binary, binarySegments);
  const anyUnary = segmented(unary, unarySegments);
  return {
    gemm,
    batchedGemm: gemm,
    conv2d: segmented(
      convAsItFits,
      convSegments({ kernel: convAsItFits, binary: anyBinary.run, unary: anyUnary.run }),
    ),
    attention: segmented(
      attentionKernel(forced.attention),
      attentionSegments({ gemm: gemmAsItFits, binary: anyBinary.run }),
    ),
    reduce: segmented(reduce, reduceSegments(reduce, anyBinary.run)),
    unary: anyUnary,
    binary: anyBinary,
  };
}

/** Records the commands of `enqueue` in the name of an operation that takes `flops` floating-point operations. */
export type RecordOperation = (
  operation: OperationName,
  enqueue: (context: OperationContext) => void,
  flops: number,
) => void;

/** Returns `kernelsWith` in the form for a driver: each kernel enqueues its problems through `record`. */
export function boundKernels(forced: ForcedVariants, record: RecordOperation): DriverKernels<DeviceMemory> {
  const bind = (
    name: OperationName,
    { run, ...declaration }: KernelDefinition<unknown, OperationContext>,
  ): Kernel<unknown> => {
    const { flops } = operations[name] as { flops(problem: unknown): number };
    return {
      ...declaration,
      run: (problem) => record(name, (context) => run(context, problem), flops(problem)),
    };
  };
  const entries = Object.entries(kernelsWith(forced)) as [
    OperationName,
    KernelDefinition<unknown, OperationContext>,
  ][];
  return Object.fromEntries(entries.map(([name, definition]) => [name, bind(name, definition)]));
}
