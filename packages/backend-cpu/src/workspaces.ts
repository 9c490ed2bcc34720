import type { Allocation, Heap } from "./heap.js";

/** Workspaces that stay with their owner, and serve one problem after the other. */
export class Workspaces {
  readonly #heap: Heap;
  #idle: Allocation[] = [];
  #taken: Allocation[] = [];

  constructor(heap: Heap) {
    this.#heap = heap;
  }

  /** Returns a block for the present problem. */
  take(bytes: number): Allocation {
    const fitting = this.#idle.filter((block) => block.bytes >= bytes);
    const best = fitting.reduce<Allocation | undefined>(
      (least, block) => (least === undefined || block.bytes < least.bytes ? block : least),
      undefined,
    );
    if (best !== undefined) this.#idle.splice(this.#idle.indexOf(best), 1);
    // Powers of two, so that blocks of problems that grow from run to run do not add up.
    const block = best ?? this.#heap.allocate(2 ** Math.ceil(Math.log2(Math.max(bytes, 1))));
    this.#taken.push(block);
    return block;
  }

  /** The next problem may take the blocks of the present one. */
  reuse(): void {
    this.#idle.push(...this.#taken);
    this.#taken = [];
  }

  /** Their next owners must use them through the queue. */
  release(): void {
    this.reuse();
    for (const block of this.#idle) this.#heap.release(block);
    this.#idle = [];
  }
}
