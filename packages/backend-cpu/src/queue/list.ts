import type { Allocation, Heap } from "../heap.js";
import type { Launch } from "../kernels/kernel.js";
import type { KernelLibrary } from "../kernels/library.js";
import { slotBytes, writeSlot } from "./protocol.js";
import type { Queue } from "./queue.js";

/**
 * Commands that are enqueued together, any number of times. They lie in the memory of the device as they would in
 * the ring of the queue, so that the workers go from one to the next without the caller.
 */
export class CommandList {
  readonly #queue: Queue;
  readonly #heap: Heap;
  readonly #kernels: Pick<KernelLibrary, "index">;
  readonly #parts: (readonly Launch[])[] = [];
  /** The commands of all parts in order, from `#laidOut`. */
  #launches: readonly Launch[] = [];
  /** Parts that have changed since the commands were written; undefined if one has another length, too. */
  #changed: Set<number> | undefined;
  #block: Allocation | undefined;
  #helpers = 1;

  constructor(queue: Queue, heap: Heap, kernels: Pick<KernelLibrary, "index">) {
    this.#queue = queue;
    this.#heap = heap;
    this.#kernels = kernels;
  }

  set(place: number, launches: readonly Launch[]): void {
    const before = this.#parts[place];
    this.#parts[place] = launches;
    if (before?.length !== launches.length) this.#changed = undefined;
    else this.#changed?.add(place);
  }

  run(): void {
    const { enqueueList } = this.#queue;
    if (enqueueList === undefined) {
      for (const part of this.#parts) for (const launch of part) this.#queue.enqueue(launch);
      return;
    }
    if (this.#changed === undefined) this.#launches = this.#parts.flat();
    if (this.#launches.length === 0) return;
    if (this.#changed === undefined) this.#writeAll();
    else if (this.#changed.size > 0) this.#writeChanged(this.#changed);
    this.#changed = new Set();
    const { address } = this.#block!;
    enqueueList.call(this.#queue, { address, steps: this.#launches.length, helpers: this.#helpers });
  }

  dispose(): void {
    if (this.#block !== undefined) this.#heap.release(this.#block);
    this.#block = undefined;
    this.#parts.length = 0;
    this.#changed = undefined;
  }

  /** Earlier commands may still use the memory, and earlier runs the commands in it: so the queue writes it. */
  #writeAll(): void {
    const launches = this.#launches;
    const bytes = launches.length * slotBytes;
    if (this.#block === undefined || this.#block.bytes < bytes) {
      const larger = this.#heap.allocate(bytes);
      if (this.#block !== undefined) this.#heap.release(this.#block);
      this.#block = larger;
    }
    this.#helpers = launches.reduce((most, { helpers }) => Math.max(most, helpers), 1);
    this.#queue.write(this.#block.address, this.#slots(launches));
  }

  #writeChanged(changed: ReadonlySet<number>): void {
    let first = 0;
    for (const [place, launches] of this.#parts.entries()) {
      if (changed.has(place) && launches.length > 0) {
        for (const { helpers } of launches) this.#helpers = Math.max(this.#helpers, helpers);
        this.#queue.write(this.#block!.address + first * slotBytes, this.#slots(launches));
      }
      first += launches.length;
    }
  }

  #slots(launches: readonly Launch[]): Uint8Array {
    const slots = new Int32Array((launches.length * slotBytes) / 4);
    for (const [i, { kernel, chunks, helpers, words }] of launches.entries())
      writeSlot(slots, (i * slotBytes) / 4, {
        ...{ kernel: this.#kernels.index(kernel), chunks, helpers, block: words },
      });
    return new Uint8Array(slots.buffer);
  }
}
