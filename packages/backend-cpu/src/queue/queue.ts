import type { BackendError } from "@backplane/core";
import type { Allocation } from "../heap.js";
import type { Launch } from "../kernels/kernel.js";

/** Executes what the caller asks for in the order in which it was asked. */
export interface Queue {
  /** How many chunks run at the same time; at least 1. */
  readonly workers: number;
  /** Appends one command. */
  enqueue(launch: Launch): void;
  /** Copies bytes of the host to an address. `source` may change when this returns. */
  write(address: number, source: Uint8Array<ArrayBufferLike>): void;
  /** Fills `destination` from an address as all commands so far leave it. */
  read(destination: Uint8Array<ArrayBufferLike>, address: number): Promise<void>;
  /** The same, done when it returns: the caller waits. Only if `mayReadSync`. */
  readSync(destination: Uint8Array<ArrayBufferLike>, address: number): void;
  /** Whether the calling thread may wait for the queue. */
  readonly mayReadSync: boolean;
  /**
   * Gives a block back to the heap. Commands and reads so far still find in it what they would have;
   * whoever gets it next has to use it by way of the queue.
   */
  release(block: Allocation): void;
  /** Resolves when all commands so far have finished. */
  synchronize(): Promise<void>;
  close(): Promise<void>;
}

export interface QueueEvents {
  /** A command failed; later ones are still executed. */
  error(error: BackendError): void;
  /** No command will be executed any more. */
  lost(reason: string): void;
}
