import type { BackendError } from "@backplane/core";
import type { Allocation } from "../heap.js";
import type { Launch } from "../kernels/kernel.js";

/** Commands that are enqueued together, any number of times. They consist of parts, in the order of their places. */
export interface CommandList {
  /** Sets the commands of one part. Runs before this one are not affected. */
  set(place: number, launches: readonly Launch[]): void;
  /** Enqueues the commands of all parts. */
  run(): void;
  dispose(): void;
}

/** Executes the caller's requests in order. */
export interface Queue {
  /** The number of chunks that run at the same time; at least 1. */
  readonly workers: number;
  /** Appends one command. */
  enqueue(launch: Launch): void;
  /** Returns a list without commands. */
  newList(): CommandList;
  /** Copies bytes of the host to an address. `source` may change as soon as this returns. */
  write(address: number, source: Uint8Array<ArrayBufferLike>): void;
  /** Fills `destination` with the bytes at an address as all commands so far leave them. */
  read(destination: Uint8Array<ArrayBufferLike>, address: number): Promise<void>;
  /** `read` that is complete when it returns: the caller waits. Allowed only if `mayReadSync`. */
  readSync(destination: Uint8Array<ArrayBufferLike>, address: number): void;
  /** Whether the calling thread may wait for the queue. */
  readonly mayReadSync: boolean;
  /**
   * Returns a block to the heap. Earlier commands and reads still find the same bytes in it; its next owner
   * must use it through the queue.
   */
  release(block: Allocation): void;
  /** Resolves when all commands so far have finished. */
  synchronize(): Promise<void>;
  close(): Promise<void>;
}

export interface QueueEvents {
  /** A command failed. Later ones are still executed. */
  error(error: BackendError): void;
  /** No further command will be executed. */
  lost(reason: string): void;
}
