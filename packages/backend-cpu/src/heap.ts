import { BackendError } from "@backplane/core";

/** Every block starts at a multiple of this many bytes and is a multiple long: one cache line. */
const granule = 64;
const pageBytes = 65536;

/** The sizes from each power of two to the next are divided into this many classes. */
const classesPerPower = 8;
const classBits = 3;

/** All bytes that 32-bit addresses reach except one page, so that no end of a region wraps to 0. */
export const largestHeapBytes: number = 2 ** 32 - pageBytes;

/** A stretch of the heap, used or free. Neighbours in memory are linked, and so are free blocks of a class. */
interface Block {
  address: number;
  bytes: number;
  free: boolean;
  /** In memory. */
  before: Block | undefined;
  after: Block | undefined;
  /** In the list of free blocks of one class. */
  previous: Block | undefined;
  next: Block | undefined;
}

/** A block that is in use. */
export interface Allocation {
  readonly address: number;
  /** At least as many as requested. */
  readonly bytes: number;
  /** The number of bytes from the start that may not be zero, because they were in use before. */
  readonly dirtyBytes: number;
}

/** The heap's record of an allocation. Undefined once it is released. */
interface Lease extends Allocation {
  block: Block | undefined;
}

/**
 * Allocator over the part of a WebAssembly memory from `base` on. Free blocks are kept in lists by size class
 * and merge with their neighbours, so that allocating and freeing take constant time (TLSF: Masmano et al.,
 * "TLSF: a new dynamic memory allocator for real-time systems", 2004; here with the bookkeeping outside the
 * memory). The memory grows as needed and never shrinks.
 *
 * The heap knows nothing about the queue. A block may be reused while commands that use it are still queued,
 * since its next use is queued behind them. Pending reads are not commands at first, so their blocks are
 * released through `Queue.release`.
 */
export class Heap {
  readonly #memory: WebAssembly.Memory;
  readonly #maxBytes: number;
  readonly #base: number;
  /** Blocks end here at the latest. The last granule is reserved for kernels that read a little too far. */
  readonly #limit: number;
  /** Granules above this address have never been used; new WebAssembly memory is zero. */
  #highWater: number;
  /** The end of the memory that is linked into blocks. */
  #end: number;
  #last: Block | undefined;
  /** Bit p: some class of power p has a free block. */
  #powers = 0;
  /** For each power, bit c: class c has a free block. */
  readonly #classes = new Uint8Array(32);
  readonly #lists: (Block | undefined)[] = new Array<Block | undefined>(32 * classesPerPower).fill(undefined);
  #usedBytes = 0;
  #usedBlocks = 0;
  #allocations = 0;
  #growths = 0;

  /** The heap may grow the memory to `maxBytes` in total, including the part below `base`. */
  constructor(memory: WebAssembly.Memory, base: number, maxBytes: number) {
    this.#memory = memory;
    this.#maxBytes = Math.floor(Math.min(maxBytes, largestHeapBytes) / pageBytes) * pageBytes;
    this.#base = Math.ceil(base / granule) * granule;
    this.#limit = this.#maxBytes - granule;
    this.#end = this.#base;
    this.#highWater = this.#end;
    this.#extend();
  }

  /** Bytes in used blocks, rounding included. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Bytes in free blocks. */
  get freeBytes(): number {
    return this.#end - this.#base - this.#usedBytes;
  }

  /** The number of allocations so far, and the number for which the memory had to grow. */
  get allocations(): number {
    return this.#allocations;
  }

  get growths(): number {
    return this.#growths;
  }

  /** The bytes that would fit if nothing were allocated. */
  get largestAllocation(): number {
    return this.#limit - this.#base;
  }

  get usedBlocks(): number {
    return this.#usedBlocks;
  }

  /** Returns a block of at least `bytes` bytes. Throws `OUT_OF_MEMORY` if there is no room. */
  allocate(bytes: number): Allocation {
    const needed = Math.max(granule, Math.ceil(bytes / granule) * granule);
    const block =
      this.#find(needed, 16) ?? this.#grow(needed) ?? this.#find(needed, Number.POSITIVE_INFINITY);
    if (block === undefined) throw this.#outOfMemory(bytes);
    this.#allocations++;
    this.#unlink(block);
    this.#split(block, needed);
    block.free = false;
    this.#usedBlocks++;
    this.#usedBytes += block.bytes;
    const end = block.address + block.bytes;
    const dirtyBytes = Math.max(0, Math.min(end, this.#highWater) - block.address);
    this.#highWater = Math.max(this.#highWater, end);
    const lease: Lease = { address: block.address, bytes: block.bytes, dirtyBytes, block };
    return lease;
  }

  /** Takes back a block. May be called once for each. */
  release(allocation: Allocation): void {
    const lease = allocation as Lease;
    const { block } = lease;
    if (block === undefined) throw new RangeError(`the block at ${allocation.address} is not allocated`);
    lease.block = undefined;
    this.#usedBlocks--;
    this.#usedBytes -= block.bytes;
    const { before, after } = block;
    if (after?.free) {
      this.#unlink(after);
      this.#merge(block, after);
    }
    if (before?.free) {
      this.#unlink(before);
      this.#merge(before, block);
      this.#link(before);
    } else {
      this.#link(block);
    }
  }

  #find(needed: number, tries: number): Block | undefined {
    // Blocks of the same class may be large enough; every block of a higher class is.
    const index = classOf(needed);
    let block = this.#lists[index];
    for (let i = 0; block !== undefined && i < tries; i++) {
      if (block.bytes >= needed) return block;
      block = block.next;
    }
    return this.#firstAtOrAbove(index + 1);
  }

  #firstAtOrAbove(index: number): Block | undefined {
    const power = index >> classBits;
    if (power > 31) return undefined;
    const classes = this.#classes[power]! & (0xff << (index & (classesPerPower - 1)));
    if (classes !== 0) return this.#lists[(power << classBits) + lowestBit(classes)];
    const powers = power === 31 ? 0 : this.#powers & (-2 << power);
    if (powers === 0) return undefined;
    const next = lowestBit(powers);
    return this.#lists[(next << classBits) + lowestBit(this.#classes[next]!)];
  }

  #link(block: Block): void {
    const index = classOf(block.bytes);
    const head = this.#lists[index];
    block.free = true;
    block.previous = undefined;
    block.next = head;
    if (head !== undefined) head.previous = block;
    this.#lists[index] = block;
    this.#classes[index >> classBits]! |= 1 << (index & (classesPerPower - 1));
    this.#powers |= 1 << (index >> classBits);
  }

  #unlink(block: Block): void {
    const index = classOf(block.bytes);
    if (block.next !== undefined) block.next.previous = block.previous;
    if (block.previous !== undefined) {
      block.previous.next = block.next;
    } else {
      this.#lists[index] = block.next;
      if (block.next === undefined) {
        const power = index >> classBits;
        this.#classes[power]! &= ~(1 << (index & (classesPerPower - 1)));
        if (this.#classes[power] === 0) this.#powers &= ~(1 << power);
      }
    }
    block.previous = undefined;
    block.next = undefined;
  }

  /** Cuts a block to `bytes` and adds the rest, if any, to the free blocks. */
  #split(block: Block, bytes: number): void {
    if (block.bytes === bytes) return;
    const rest = newBlock(block.address + bytes, block.bytes - bytes, block, block.after);
    if (block.after !== undefined) block.after.before = rest;
    else this.#last = rest;
    block.after = rest;
    block.bytes = bytes;
    this.#link(rest);
  }

  /** Extends `block` over `after`, which follows it. */
  #merge(block: Block, after: Block): void {
    block.bytes += after.bytes;
    block.after = after.after;
    if (after.after !== undefined) after.after.before = block;
    else this.#last = block;
  }

  /** Grows the memory until a block of `needed` bytes is free at its end. */
  #grow(needed: number): Block | undefined {
    const last = this.#last?.free ? this.#last : undefined;
    const missing = Math.ceil((needed - (last?.bytes ?? 0)) / pageBytes);
    const size = this.#memory.buffer.byteLength;
    const room = Math.floor((this.#maxBytes - size) / pageBytes);
    if (missing > room) return undefined;
    // Grow in increasing steps, since each may have to copy or map; but never refuse a size that would just fit.
    const generous = Math.min(room, Math.max(missing, 16, Math.floor(size / pageBytes / 4)));
    if (!this.#growBy(generous) && (generous === missing || !this.#growBy(missing))) return undefined;
    this.#growths++;
    this.#extend();
    return this.#last?.free && this.#last.bytes >= needed ? this.#last : undefined;
  }

  #growBy(pages: number): boolean {
    try {
      this.#memory.grow(pages);
      return true;
    } catch {
      return false;
    }
  }

  /** Adds the new memory as a free block, or to the free block at the end. */
  #extend(): void {
    const end = Math.min(this.#memory.buffer.byteLength - granule, this.#limit);
    const bytes = end - this.#end;
    if (bytes <= 0) return;
    if (this.#last?.free) {
      this.#unlink(this.#last);
      this.#last.bytes += bytes;
      this.#link(this.#last);
    } else {
      const block = newBlock(this.#end, bytes, this.#last, undefined);
      if (this.#last !== undefined) this.#last.after = block;
      this.#last = block;
      this.#link(block);
    }
    this.#end = end;
  }

  #outOfMemory(bytes: number): BackendError {
    const largest = this.#largestFree();
    return new BackendError(
      "OUT_OF_MEMORY",
      `${bytes} bytes asked for; ${this.#usedBlocks} live blocks hold ${this.#usedBytes} bytes of at most ` +
        `${this.#maxBytes}, and the largest free block has ${largest}`,
    );
  }

  #largestFree(): number {
    if (this.#powers === 0) return 0;
    const power = 31 - Math.clz32(this.#powers);
    const index = (power << classBits) + 31 - Math.clz32(this.#classes[power]!);
    let largest = 0;
    for (let block = this.#lists[index]; block !== undefined; block = block.next) {
      largest = Math.max(largest, block.bytes);
    }
    return largest;
  }
}

function newBlock(
  address: number,
  bytes: number,
  before: Block | undefined,
  after: Block | undefined,
): Block {
  return { address, bytes, free: false, before, after, previous: undefined, next: undefined };
}

function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits);
}

/** Returns the class of a size: its highest bit, and the three bits after that. */
function classOf(bytes: number): number {
  const granules = bytes / granule;
  if (granules < classesPerPower) return granules;
  const power = 31 - Math.clz32(granules);
  const fraction = (granules >>> (power - classBits)) & (classesPerPower - 1);
  return ((power - classBits + 1) << classBits) + fraction;
}
