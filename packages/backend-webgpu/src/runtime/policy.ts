/** When a batch of commands is submitted though nobody waits for it. */
export interface BatchLimits {
  /** Dispatches: enough to spread the cost of a submit, which is that of several dispatches. */
  readonly dispatches: number;
  /**
   * Dispatches, once a run of a recording has submitted a batch of `dispatches`: the device is busy then, and the host
   * records so fast that it does not run dry.
   */
  readonly replayed: number;
  /** Milliseconds that the work would take on a slow device, see `estimatedMilliseconds`. */
  readonly work: number;
  /** Milliseconds that it would take at the best rate that the device has shown. The larger of both holds. */
  readonly shown: number;
  /** Milliseconds from the first command to the latest, during which the device may be idle. */
  readonly recording: number;
}

/**
 * Drivers reset a device that takes too long over one submit: after 2 seconds on Windows, a few seconds
 * elsewhere. So a batch holds at most a quarter of a second's work for a slow device. A fast one finishes
 * that in 30 microseconds, and rests for as long between two submits (f16 gemm of 4096^3 on an NVIDIA H200:
 * 298 TFLOP/s with a submit each, 315 with 16 to a submit). So a batch may hold more once the device has been
 * seen to be fast. Kernels differ by a factor of a hundred in how near they come to the best rate: the
 * slowest take a third of a second for the work that the best do in `shown`.
 */
export const batchLimits: BatchLimits = { dispatches: 64, replayed: 256, work: 250, shown: 3, recording: 4 };

/** Milliseconds that have to pass for a rate to be believed: clocks of browsers are coarse. */
const BELIEVED = 5;

/** The rate of an integrated GPU with kernels that do not suit it; software adapters have no watchdog. */
const SLOW_BYTES_PER_MILLISECOND = 16e6;
const SLOW_FLOPS_PER_MILLISECOND = 40e6;

/** How long a slow device takes to move these bytes and do these floating-point operations. */
export function estimatedMilliseconds(bytes: number, flops: number): number {
  return bytes / SLOW_BYTES_PER_MILLISECOND + flops / SLOW_FLOPS_PER_MILLISECOND;
}

/**
 * Decides when to submit. It must be told of each dispatch before and after it is recorded, and of work that
 * is seen to be done. The rate of the device is that of all work between two moments at which it had none.
 * The true rate is at least that, since the device may have waited for the caller meanwhile.
 *
 * A dispatch is never divided here. One that is beyond the limit by itself gets a submit of its own; kernels
 * should make several dispatches of it (see `docs/adding-a-kernel.md`).
 */
export class BatchPolicy {
  readonly #limits: BatchLimits;
  #dispatches = 0;
  #work = 0;
  #began = 0;
  /** Work of all batches that were submitted, and of those before the device last had nothing to do. */
  #submitted = 0;
  #done = 0;
  /** When the first of the others was submitted. */
  #since = 0;
  #bestRate = 0;

  constructor(limits: BatchLimits = batchLimits) {
    this.#limits = limits;
  }

  /** Whether nothing has been recorded since the last submit. */
  get isEmpty(): boolean {
    return this.#dispatches === 0;
  }

  /** Whether to submit the recorded commands before a dispatch of this much work is recorded, at the time `now`. */
  isDue(work: number, now: number): boolean {
    if (this.#dispatches === 0) return false;
    return this.#work + work > this.#mostWork || now - this.#began >= this.#limits.recording;
  }

  /** Records a dispatch. Returns whether to submit at once: also if there are `most` dispatches. */
  add(work: number, now: number, most: number = this.#limits.dispatches): boolean {
    if (this.#dispatches === 0) this.#began = now;
    this.#dispatches++;
    this.#work += work;
    return this.#dispatches >= most || this.#work >= this.#mostWork;
  }

  /** All recorded commands have been submitted. */
  submitted(now: number): void {
    if (this.#submitted === this.#done) this.#since = now;
    this.#submitted += this.#work;
    this.#dispatches = 0;
    this.#work = 0;
  }

  /** A number that stands for everything submitted so far. */
  get latest(): number {
    return this.#submitted;
  }

  /** All that had been submitted when `latest` was this number is done. */
  finished(number: number, now: number): void {
    const elapsed = now - this.#since;
    if (elapsed >= BELIEVED) this.#bestRate = Math.max(this.#bestRate, (number - this.#done) / elapsed);
    if (number === this.#submitted) this.#done = number;
  }

  get #mostWork(): number {
    return Math.max(this.#limits.work, this.#limits.shown * this.#bestRate);
  }
}
