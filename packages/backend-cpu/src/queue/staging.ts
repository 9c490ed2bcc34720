import type { Heap } from "../heap.js";
import { reached } from "./protocol.js";

/** A pending write. It ends at `end` of the ring, and is complete when `sequence` commands are. */
interface Pending {
  readonly end: number;
  readonly sequence: number;
}

/**
 * A bounded ring of memory in which bytes of the host wait until the queue copies them to their place. The
 * caller writes it at once, not through the queue, so unlike all other memory it must have no queued uses.
 */
export class StagingRing {
  readonly #heap: Heap;
  readonly #capacity: number;
  #address: number | undefined;
  /** Commands that may still use the memory from the time before it became the ring. */
  #quietAt: number | undefined;
  readonly #pending: Pending[] = [];
  #start = 0;
  #end = 0;

  constructor(heap: Heap, capacity: number) {
    this.#heap = heap;
    this.#capacity = capacity;
  }

  /**
   * Returns the address of `bytes` bytes that may be written now, or undefined if there is no room. The
   * caller then appends a command that reads them, and calls `commit` with the number of commands.
   */
  take(size: number, completed: number, accepted: number): number | undefined {
    const bytes = Math.ceil(size / 64) * 64;
    // Larger writes would drive out everything else; they take another way.
    if (bytes > this.#capacity / 2 || !this.#open(completed, accepted)) return undefined;
    while (this.#pending[0] !== undefined && reached(completed, this.#pending[0].sequence)) {
      this.#start = this.#pending.shift()!.end;
    }
    if (this.#pending.length === 0) {
      this.#start = 0;
      this.#end = 0;
    }
    // Free is what lies from end to start, going round. One byte stays free to tell full from empty.
    const wrapped = this.#end < this.#start;
    let at = this.#end;
    if (at + bytes > (wrapped ? this.#start - 1 : this.#capacity)) {
      if (wrapped || bytes > this.#start - 1) return undefined;
      at = 0;
    }
    this.#end = at + bytes;
    return this.#address! + at;
  }

  commit(sequence: number): void {
    this.#pending.push({ end: this.#end, sequence });
  }

  #open(completed: number, accepted: number): boolean {
    if (this.#address === undefined) {
      try {
        const { address, dirtyBytes } = this.#heap.allocate(this.#capacity);
        this.#address = address;
        if (dirtyBytes > 0) this.#quietAt = accepted;
      } catch {
        // The memory is full, but may have room the next time.
        return false;
      }
    }
    if (this.#quietAt !== undefined && reached(completed, this.#quietAt)) this.#quietAt = undefined;
    return this.#quietAt === undefined;
  }
}
