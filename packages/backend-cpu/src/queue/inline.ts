import { BackendError } from "@backplane/core";
import type { Allocation, Heap } from "../heap.js";
import { KernelInstances } from "../kernels/instance.js";
import { type Launch, maxParameters } from "../kernels/kernel.js";
import type { KernelLibrary } from "../kernels/library.js";
import type { NativeKernels } from "../native/functions.js";
import type { CommandList, Queue, QueueEvents } from "./queue.js";

/** Address of the parameter block of the current command. */
const blockAddress = 64;

/** Bytes at the bottom of the memory that the inline queue needs. */
export const inlineControlBytes = 1024;

/** A queue without workers: each command has been executed when `enqueue` returns. */
export class InlineQueue implements Queue {
  readonly workers = 1;
  readonly mayReadSync = true;
  readonly #memory: WebAssembly.Memory;
  readonly #heap: Heap;
  readonly #kernels: KernelLibrary;
  readonly #instances: KernelInstances;
  readonly #scratch: number;
  readonly #events: QueueEvents;
  #bytes: Uint8Array<ArrayBuffer> | undefined;
  #block = new Int32Array(0);

  constructor(
    kernels: KernelLibrary,
    memory: WebAssembly.Memory,
    heap: Heap,
    scratch: number,
    events: QueueEvents,
    native: NativeKernels = {},
  ) {
    this.#memory = memory;
    this.#heap = heap;
    this.#kernels = kernels;
    this.#instances = new KernelInstances(kernels.code, memory, native);
    this.#scratch = scratch;
    this.#events = events;
  }

  enqueue(launch: Launch): void {
    const index = this.#kernels.index(launch.kernel);
    const { words } = launch;
    // Growing the memory detaches the buffer. A new view for each command took a sixth of a small call.
    if (this.#block.length === 0)
      this.#block = new Int32Array(this.#memory.buffer, blockAddress, maxParameters);
    const block = this.#block;
    for (let i = 0; i < words.length; i++) block[i] = words[i]!;
    try {
      const kernel = this.#instances.get(index);
      for (let chunk = 0; chunk < launch.chunks; chunk++) kernel(blockAddress, chunk, this.#scratch, 0);
    } catch (error) {
      const message = `kernel ${launch.kernel} failed: ${String(error)}`;
      this.#events.error(new BackendError("DEVICE_ERROR", message, { cause: error }));
    }
  }

  newList(): CommandList {
    const parts: (readonly Launch[])[] = [];
    return {
      set(place, launches) {
        parts[place] = launches;
      },
      run: () => {
        for (const part of parts) for (const launch of part) this.enqueue(launch);
      },
      dispose() {
        parts.length = 0;
      },
    };
  }

  write(address: number, source: Uint8Array<ArrayBufferLike>): void {
    this.#view().set(source, address);
  }

  async read(destination: Uint8Array<ArrayBufferLike>, address: number): Promise<void> {
    this.readSync(destination, address);
  }

  readSync(destination: Uint8Array<ArrayBufferLike>, address: number): void {
    destination.set(this.#view().subarray(address, address + destination.byteLength));
  }

  release(block: Allocation): void {
    this.#heap.release(block);
  }

  async synchronize(): Promise<void> {}

  async close(): Promise<void> {}

  /** The memory as bytes; growing it replaces the buffer. */
  #view(): Uint8Array<ArrayBuffer> {
    const { buffer } = this.#memory;
    if (this.#bytes?.buffer !== buffer) this.#bytes = new Uint8Array(buffer as ArrayBuffer);
    return this.#bytes;
  }
}
