/** When a batch of commands is submitted though nobody waits for it. */
export interface BatchLimits {
  /** Dispatches: enough to spread the cost of a submit, which is that of several dispatches. */
  readonly dispatches: number;
  /** Milliseconds that the work would take on a slow device, see `estimatedMilliseconds`. */
  readonly work: number;
  /** Milliseconds from the first command to the latest, during which the device may be idle. */
  readonly recording: number;
}

/**
 * Drivers reset a device that takes too long over one submit: after 2 seconds on Windows, a few
 * seconds elsewhere. So a batch holds no more than a quarter of a second's work for a slow device; a
 * fast one is through with that in a few milliseconds, hundreds of times the cost of a submit.
 */
export const batchLimits: BatchLimits = { dispatches: 64, work: 250, recording: 4 };

/** What an integrated GPU achieves at kernels that do not suit it; software adapters have no watchdog. */
const SLOW_BYTES_PER_MILLISECOND = 16e6;
const SLOW_FLOPS_PER_MILLISECOND = 40e6;

/** How long a slow device takes to move these bytes and do these floating-point operations. */
export function estimatedMilliseconds(bytes: number, flops: number): number {
  return bytes / SLOW_BYTES_PER_MILLISECOND + flops / SLOW_FLOPS_PER_MILLISECOND;
}

/**
 * Decides when to submit. To be told of each dispatch before and after it is recorded.
 *
 * A dispatch is never divided here: one that is beyond the limit by itself gets a submit of its own,
 * and it is for kernels to make several of it (see `docs/adding-a-kernel.md`).
 */
export class BatchPolicy {
  readonly #limits: BatchLimits;
  #dispatches = 0;
  #work = 0;
  #began = 0;

  constructor(limits: BatchLimits = batchLimits) {
    this.#limits = limits;
  }

  /** Whether to submit what is recorded before a dispatch of so much work is, at the time `now`. */
  isDue(work: number, now: number): boolean {
    if (this.#dispatches === 0) return false;
    return this.#work + work > this.#limits.work || now - this.#began >= this.#limits.recording;
  }

  /** A dispatch was recorded. Answers whether to submit at once. */
  add(work: number, now: number): boolean {
    if (this.#dispatches === 0) this.#began = now;
    this.#dispatches++;
    this.#work += work;
    return this.#dispatches >= this.#limits.dispatches || this.#work >= this.#limits.work;
  }

  /** All that was recorded has been submitted. */
  reset(): void {
    this.#dispatches = 0;
    this.#work = 0;
  }
}
