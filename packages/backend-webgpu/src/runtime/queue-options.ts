/** What a `CommandQueue` is told, and whom it tells. */
import type { Program } from "../program/index.js";
import type { Pipeline } from "./pipelines.js";
import type { BatchLimits } from "./policy.js";

/**
 * Sees every dispatch in a compute pass of its own. A profiler needs this, since timestamps belong to passes.
 * See `CommandQueue.observe`.
 */
export interface DispatchObserver {
  /** Called before a dispatch is recorded. Returns the timestamps that its pass must write. */
  timestampWrites(operation: string, program: Program): GPUComputePassTimestampWrites | undefined;
  /** Called before the batch is submitted; may add commands to it, such as `resolveQuerySet`. */
  beforeSubmit(encoder: GPUCommandEncoder): void;
  /** The batch was submitted. */
  afterSubmit(): void;
}

export interface QueueOptions {
  /** A batch was submitted, or there was nothing to submit, and no command is held back. */
  onFlush(): void;
  /** Returns the pipeline, compiled at once if need be. Must be there if pipelines may be incomplete. */
  compiled?(operation: string, pipeline: Pipeline): GPUComputePipeline;
  /** All commands that were held back have been submitted. */
  onRelease?(): void;
  /** Makes the calls of a submit that has commands of these operations. Default: just so. */
  together?(calls: () => void, operations: readonly string[]): void;
  readonly limits?: BatchLimits;
  /** Milliseconds since some moment. Default: performance.now. */
  readonly now?: () => number;
}
