import type { BackendListing, MemoryStatistics, SwapReport } from "@backplane/core";
import type { Difference } from "./evaluation.js";
import type { ModelName } from "./models.js";
import type { Mode } from "./options.js";
import type { Reading, StretchResult } from "./training.js";

/** The result of a run; `--json` prints exactly this. Times in seconds, sizes in bytes. */
export interface RunResult {
  readonly mode: Mode;
  readonly model: ModelName;
  readonly seed: number;
  readonly epochs: number;
  readonly batch: number;
  /** Processes that trained together. */
  readonly ranks: number;
  /** The backends of this machine, with their device or the reason why there is none. */
  readonly backends: readonly BackendListing[];
  readonly stretches: readonly StretchResult[];
  /** The loss of a batch, now and then. */
  readonly readings: readonly Reading[];
  readonly swaps: readonly SwapReport[];
  readonly test: {
    readonly images: number;
    readonly correct: number;
    readonly accuracy: number;
  };
  /** The difference between the logits of test images on both backends (all of them, unless the GPU is emulated); null if there was only one. */
  readonly difference: Difference | null;
  readonly memory: {
    /** At the end of training. */
    readonly training: MemoryStatistics;
    /** With everything freed, one handle after the other. */
    readonly freed: MemoryStatistics;
    readonly disposed: MemoryStatistics;
  };
  readonly seconds: number;
}
