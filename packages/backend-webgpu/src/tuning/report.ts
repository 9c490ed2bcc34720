import type { OperationName } from "@backplane/core";
import type { TuningData, TuningEntry } from "./data.js";
import type { TunedShape } from "./tuned-shape.js";

export interface TuneOptions {
  /** Hears of each shape that is done, and how many are known; a few may come to light on the way. */
  readonly onProgress?: (done: number, shapes: number) => void;
  /** An `AbortSignal`. Once it is aborted, `tune` rejects with its reason and changes nothing. */
  readonly signal?: { readonly aborted: boolean; readonly reason?: unknown };
  /** Skips the remaining shapes after this many milliseconds. Default: no limit. */
  readonly budgetMilliseconds?: number;
  /** Shapes whose operands have more bytes than this in all are skipped. Default 1 GiB. */
  readonly maxBytes?: number;
  /** How much less time than the default another kernel must take to replace it: from 0 to 1. Default 0.03. */
  readonly margin?: number;
}

export interface TuneReport {
  /** All that is in use from now on, like `WebGpuBackend.tuning`. */
  readonly tuning: TuningData;
  /** The entries that this call has found. */
  readonly entries: readonly TuningEntry[];
  /** Shapes that keep their kernels, and why. */
  readonly skipped: readonly SkippedShape[];
  /** Kernels that were not timed, as they failed or gave other results than the default. */
  readonly dropped: readonly DroppedVariant[];
}

export interface SkippedShape {
  readonly operation: OperationName;
  readonly shape: TunedShape;
  readonly reason: string;
}

export interface DroppedVariant {
  readonly operation: OperationName;
  readonly shape: TunedShape;
  readonly variant: string;
  readonly reason: string;
}
