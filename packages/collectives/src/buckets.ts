import {
  BackendError,
  Checks,
  type ComputeBackend,
  checkNames,
  type DeviceHandle,
  type Operand,
} from "@backplane/core";
import { type AllReduceKind, kinds, ownOperand } from "./arguments.js";
import type { Communicator } from "./communicator.js";

export interface BucketOptions {
  /** Elements are collected until there are so many bytes of them. Default: 25 MiB. */
  readonly bucketBytes?: number;
  /** Default: sum. */
  readonly kind?: AllReduceKind;
}

/** Some of the arrays, which are reduced together. */
interface Bucket {
  readonly count: number;
  readonly handle: DeviceHandle;
  /** Arrays of this round that are still missing. */
  missing: number;
}

/** Where the copy of an array is. */
interface Slot {
  readonly count: number;
  readonly bucket: number;
  readonly byteOffset: number;
  /** The array of this round. */
  operand: Operand | undefined;
}

/**
 * Reduces many arrays of f32 over all ranks, in rounds, such as the gradients of each training step. Arrays are collected
 * in buckets, from the last array to the first, and a bucket is reduced as soon as it is full and those before it
 * are under way, while the backend computes the next ones (S. Li et al., "PyTorch Distributed", VLDB 2020):
 *
 *   const reduction = new BucketReduction(communicator, backend, parameters.map(({ size }) => size));
 *   // in each step: add(index, gradient) for all of them, then
 *   await reduction.finish();
 *
 * The buckets are allocations of the backend, as large as all arrays together.
 */
export class BucketReduction implements Disposable {
  readonly #communicator: Communicator;
  readonly #backend: ComputeBackend;
  readonly #kind: AllReduceKind;
  readonly #buckets: Bucket[] = [];
  readonly #slots: Slot[];
  /** Reductions of this round, by bucket. */
  #underWay: Promise<void>[] = [];
  #isDisposed = false;

  /** `counts`: the elements of each array. */
  constructor(
    communicator: Communicator,
    backend: ComputeBackend,
    counts: readonly number[],
    options: BucketOptions = {},
  ) {
    checkNames("BucketReduction", options, ["bucketBytes", "kind"]);
    const checks = new Checks("BucketReduction");
    const { bucketBytes = 25 * 2 ** 20, kind = "sum" } = options;
    checks.count("bucketBytes", bucketBytes, 1);
    checks.counts("counts", counts);
    checks.oneOf("kind", kind, kinds);
    this.#communicator = communicator;
    this.#backend = backend;
    this.#kind = kind;
    const slots = new Array<Slot>(counts.length);
    let [count, arrays] = [0, 0];
    const close = (): void => {
      try {
        this.#buckets.push({ count, handle: backend.alloc(4 * count), missing: arrays });
      } catch (error) {
        this.dispose();
        throw error;
      }
      [count, arrays] = [0, 0];
    };
    for (let i = counts.length - 1; i >= 0; i--) {
      slots[i] = {
        count: counts[i]!,
        bucket: this.#buckets.length,
        byteOffset: 4 * count,
        operand: undefined,
      };
      count += counts[i]!;
      arrays++;
      if (4 * count >= bucketBytes || i === 0) close();
    }
    this.#slots = slots;
    this.#sizes = this.#buckets.map(({ missing }) => missing);
  }

  /** Arrays of each bucket. */
  readonly #sizes: readonly number[];

  /** Number of buckets. */
  get buckets(): number {
    return this.#buckets.length;
  }

  /**
   * Adds array number `index` of this round, of as many elements as the constructor was told. Its elements are copied, as
   * the calls before left them. `finish` writes the results there.
   */
  add(index: number, array: Operand): void {
    this.#assertLive("add");
    const slot = Number.isInteger(index) ? this.#slots[index] : undefined;
    if (slot === undefined || slot.operand !== undefined)
      throw new BackendError(
        "INVALID_ARGUMENT",
        `add: index is ${String(index)}${slot === undefined ? "" : ", which was added already"}; ` +
          `allowed: each number from 0 to ${this.#slots.length - 1} once in a round`,
        { operation: "add", argument: "index" },
      );
    const bucket = this.#buckets[slot.bucket]!;
    this.#backend.copyDtoD({ handle: bucket.handle, byteOffset: slot.byteOffset }, array, 4 * slot.count);
    slot.operand = ownOperand(array);
    bucket.missing--;
    this.#start();
  }

  /** Resolves when all arrays of this round hold their results. Then the next round begins, also after a failure. */
  async finish(): Promise<void> {
    this.#assertLive("finish");
    try {
      const missing = this.#slots.flatMap(({ operand }, i) => (operand === undefined ? [i] : []));
      if (missing.length > 0)
        throw new BackendError(
          "INVALID_ARGUMENT",
          `finish: arrays are missing: ${missing.join(", ")}; allowed: after all of them were added`,
          { operation: "finish" },
        );
      for (const [b, reduction] of this.#underWay.entries()) {
        // After dispose() it cannot write its bucket.
        await reduction.finally(() => this.#assertLive("finish"));
        for (const { bucket, byteOffset, count, operand } of this.#slots)
          if (bucket === b)
            this.#backend.copyDtoD(operand!, { handle: this.#buckets[b]!.handle, byteOffset }, 4 * count);
      }
    } finally {
      await Promise.allSettled(this.#underWay);
      this.#underWay = [];
      for (const slot of this.#slots) slot.operand = undefined;
      for (const [b, bucket] of this.#buckets.entries()) bucket.missing = this.#sizes[b]!;
    }
  }

  /** Frees the buckets. `add` and `finish` then throw `DISPOSED`. Idempotent. */
  dispose(): void {
    this.#isDisposed = true;
    for (const { handle } of this.#buckets.splice(0)) this.#backend.free(handle);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #assertLive(operation: string): void {
    if (!this.#isDisposed) return;
    throw new BackendError("DISPOSED", `${operation}: the reduction was disposed of`, { operation });
  }

  /** All ranks reduce the buckets in the same order, whatever the order in which arrays come. */
  #start(): void {
    for (let b = this.#underWay.length; b < this.#buckets.length && this.#buckets[b]!.missing === 0; b++) {
      const { handle, count } = this.#buckets[b]!;
      const reduction = this.#communicator.allReduce(this.#backend, {
        input: handle,
        count,
        kind: this.#kind,
      });
      // `finish` waits for it.
      reduction.catch(() => {});
      this.#underWay.push(reduction);
    }
  }
}
