import type { Allocation, Heap } from "../heap.js";
import type { Launch } from "../kernels/kernel.js";
import type { KernelLibrary } from "../kernels/library.js";
import { type List, slotBytes, writeSlot } from "./protocol.js";
import type { CommandList, Queue } from "./queue.js";

const slotWords = slotBytes / 4;

/**
 * Slots between two changed parts that are written again with them: 16 KB, which a worker copies in the time that one
 * more command takes.
 */
const NEAR_SLOTS = 64;

/** The queue that carries out a list. */
interface ListQueue extends Pick<Queue, "write"> {
  enqueueList(list: List): void;
}

/** A list whose commands lie in the memory as they would in the ring, so that workers go from one to the next without the caller. */
export class SharedList implements CommandList {
  readonly #queue: ListQueue;
  readonly #heap: Heap;
  readonly #kernels: Pick<KernelLibrary, "index">;
  readonly #parts: (readonly Launch[])[] = [];
  /** The slots of the commands of all parts in order, as they are in the memory. */
  #slots = new Int32Array();
  /** Parts that have changed since the commands were written; undefined if one has another length, too. */
  #changed: Set<number> | undefined;
  #block: Allocation | undefined;
  #helpers = 1;

  constructor(queue: ListQueue, heap: Heap, kernels: Pick<KernelLibrary, "index">) {
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
    if (this.#changed === undefined) this.#writeAll();
    else if (this.#changed.size > 0) this.#writeChanged(this.#changed);
    this.#changed = new Set();
    const steps = this.#slots.length / slotWords;
    if (steps === 0) return;
    this.#queue.enqueueList({ address: this.#block!.address, steps, helpers: this.#helpers });
  }

  dispose(): void {
    if (this.#block !== undefined) this.#heap.release(this.#block);
    this.#block = undefined;
    this.#parts.length = 0;
    this.#changed = undefined;
  }

  /** Earlier commands may still use the memory, and earlier runs the commands in it: so the queue writes it. */
  #writeAll(): void {
    const count = this.#parts.reduce((sum, launches) => sum + launches.length, 0);
    this.#slots = new Int32Array(count * slotWords);
    this.#helpers = 1;
    if (count === 0) return;
    const bytes = count * slotBytes;
    if (this.#block === undefined || this.#block.bytes < bytes) {
      const larger = this.#heap.allocate(bytes);
      if (this.#block !== undefined) this.#heap.release(this.#block);
      this.#block = larger;
    }
    let first = 0;
    for (const launches of this.#parts) first = this.#lay(first, launches);
    this.#write(0, count);
  }

  /** Parts that are near one another are written together, with what lies between them. */
  #writeChanged(changed: ReadonlySet<number>): void {
    let [from, to, first] = [0, 0, 0];
    for (const [place, launches] of this.#parts.entries()) {
      if (!changed.has(place) || launches.length === 0) first += launches.length;
      else {
        if (to > 0 && first - to > NEAR_SLOTS) {
          this.#write(from, to);
          to = 0;
        }
        if (to === 0) from = first;
        first = this.#lay(first, launches);
        to = first;
      }
    }
    if (to > 0) this.#write(from, to);
  }

  /** Puts commands into the slots from `first` on, and returns the place behind them. */
  #lay(first: number, launches: readonly Launch[]): number {
    let place = first;
    for (const { kernel, chunks, helpers, words } of launches) {
      this.#helpers = Math.max(this.#helpers, helpers);
      const index = this.#kernels.index(kernel);
      writeSlot(this.#slots, place * slotWords, { kernel: index, chunks, helpers, block: words });
      place += 1;
    }
    return place;
  }

  #write(from: number, to: number): void {
    const slots = this.#slots.subarray(from * slotWords, to * slotWords);
    const bytes = new Uint8Array(slots.buffer, slots.byteOffset, slots.byteLength);
    this.#queue.write(this.#block!.address + from * slotBytes, bytes);
  }
}
