import type { KernelFunc } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "./backend.js";
import type { Kernels } from "./kernels/kernel.js";

/** The calls of one kernel. */
export interface KernelProfileRow {
  /** As TensorFlow.js names it, such as `Conv2D`. */
  readonly kernel: string;
  readonly calls: number;
  /** Results that were computed on the host: see `RegisterOptions.hostElements`. */
  readonly onHost: number;
  /** Time of the host: kernels enqueue, and do not wait for the device. */
  readonly milliseconds: number;
}

export interface KernelProfile {
  /** Those that took longest come first. */
  readonly rows: readonly KernelProfileRow[];
  /** From the first call until the device had finished. */
  readonly milliseconds: number;
}

interface Row {
  calls: number;
  onHost: number;
  milliseconds: number;
}

/** Measures kernels while somebody asks for it. */
export class KernelTimes {
  #rows: Map<string, Row> | undefined;

  /**
   * A kernel in the form in which TensorFlow.js calls it, measured while `profile` is under way. One that throws leaves no
   * tensors behind.
   */
  timed(name: string, kernel: Kernels[string]): KernelFunc {
    return (call) => {
      const backend = call.backend as BackplaneBackend;
      const rows = this.#rows;
      if (rows === undefined) return backend.undoneOnFailure(kernel, call);
      const before = backend.hostResults;
      const begun = performance.now();
      const result = backend.undoneOnFailure(kernel, call);
      const row = rows.get(name) ?? { calls: 0, onHost: 0, milliseconds: 0 };
      row.calls++;
      row.onHost += backend.hostResults - before;
      row.milliseconds += performance.now() - begun;
      rows.set(name, row);
      return result;
    };
  }

  /** Measures what `body` calls, also what it awaits. One at a time. */
  async profile(body: () => unknown, synchronize: () => Promise<void>): Promise<KernelProfile> {
    if (this.#rows !== undefined) throw new Error("profile: another profile is under way");
    await synchronize();
    const rows = new Map<string, Row>();
    this.#rows = rows;
    const begun = performance.now();
    try {
      await body();
      await synchronize();
    } finally {
      this.#rows = undefined;
    }
    const milliseconds = performance.now() - begun;
    return {
      rows: [...rows]
        .map(([kernel, row]) => ({ kernel, ...row }))
        .sort((a, b) => b.milliseconds - a.milliseconds),
      milliseconds,
    };
  }
}
