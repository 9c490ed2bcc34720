import type { PoolStatistics } from "@backplane/core";

/** Storage and both ends of copies: every buffer that tensors or scratch live in. */
const BUFFER_USAGE = 0x80 | 0x04 | 0x08; // STORAGE | COPY_SRC | COPY_DST

/** Buffers are this long or a multiple of it, so that views as vec4 reach their last byte. */
export const BUFFER_GRANULARITY = 16;

/** A read that has not yet taken all its bytes from a buffer. */
export interface PendingRead {
  /** Copies the remaining bytes now, to a place that nobody else writes, and lets go of the buffer. */
  detach(): void;
}

/** A cached bind group and its bindings: memory i from byte `starts[i]` on. */
export interface BoundBuffers {
  readonly key: number;
  /** The layout that the group was made for; told from others by identity. */
  readonly layout: object;
  readonly memories: readonly DeviceMemory[];
  readonly starts: readonly number[];
  readonly group: GPUBindGroup;
}

/** One GPU buffer, lent out by `MemoryPool`. */
export class DeviceMemory {
  readonly buffer: GPUBuffer;
  /** Bytes. A multiple of `BUFFER_GRANULARITY`. */
  readonly capacity: number;
  /** Distinguishes buffers in cache keys. */
  readonly id: number;
  /** The requested bytes; what follows is never used. */
  bytes = 0;
  /** The batch of commands that last used it; see `CommandQueue.batch`. */
  batch = 0;
  /** True: zeros were promised and the bytes are still those of an earlier owner. */
  stale = false;
  /** Cached bind groups that refer to the buffer. */
  readonly bindGroups: Set<BoundBuffers> = new Set();
  /** Reads that hold the buffer back from its next owner, and must be told before its bytes change. */
  readonly pendingReads: Set<PendingRead> = new Set();
  /** Its owner has returned it while there were pending reads. */
  isReturned = false;
  /** The device had no memory for it: every use of it fails. */
  isRefused = false;
  /** It is lent as scratch. */
  isScratch = false;
  /** Its neighbours among the free buffers: see `MemoryPool`. */
  older: DeviceMemory | undefined = undefined;
  newer: DeviceMemory | undefined = undefined;

  constructor(buffer: GPUBuffer, capacity: number, id: number) {
    this.buffer = buffer;
    this.capacity = capacity;
    this.id = id;
  }

  /** To be called before all of these bytes are written: zeros that nobody would see need not be. */
  overwrite(byteOffset: number, byteLength: number): void {
    if (byteOffset === 0 && byteLength >= this.bytes) this.stale = false;
  }

  /** To be called before anything is enqueued that writes to the buffer. May record commands. */
  beforeWrite(): void {
    if (this.pendingReads.size > 0) for (const read of [...this.pendingReads]) read.detach();
  }
}

export interface MemoryPoolOptions {
  readonly device: GPUDevice;
  /** No buffer is larger. A multiple of `BUFFER_GRANULARITY`. */
  readonly maxBytes: number;
  /** Freed buffers are kept for reuse up to this many bytes in all. */
  readonly poolBytes: number;
  /** The batch that is being recorded: buffers that it uses may not be destroyed yet. */
  currentBatch(): number;
  /** A buffer is about to be destroyed. */
  onDestroy(memory: DeviceMemory): void;
  /** Returns the operation being recorded. */
  currentOperation(): string;
  /** The device refused to make a buffer, for this operation. */
  onOutOfMemory(bytes: number, reason: string, operation: string): void;
}

/**
 * Lends GPU buffers and keeps returned ones for reuse. A returned buffer may be lent again at once:
 * the queue of the device runs in order, so the new owner's commands come after the old one's. Only
 * reads that take their bytes later hold it back.
 */
export class MemoryPool {
  readonly #options: MemoryPoolOptions;
  /** Free buffers by capacity, the most recently used last. */
  readonly #free = new Map<number, DeviceMemory[]>();
  /**
   * The ends of the list of all free buffers, in the order of their use. They are linked: sets of them took longer than all
   * the rest of lending and taking back.
   */
  #oldest: DeviceMemory | undefined;
  #newest: DeviceMemory | undefined;
  /** All buffers, lent or not. */
  readonly #all = new Set<DeviceMemory>();
  /** To be destroyed once the commands that use them have been submitted. */
  #condemned: DeviceMemory[] = [];
  #freeBytes = 0;
  /** Of buffers that are lent as scratch. */
  #scratchBytes = 0;
  #reservedBytes = 0;
  #hits = 0;
  #misses = 0;
  /** As many bytes in all were once refused: from there on, free buffers make room for new ones. */
  #scarceBytes = Number.POSITIVE_INFINITY;
  #nextId = 1;

  constructor(options: MemoryPoolOptions) {
    this.#options = options;
  }

  /** Bytes of all buffers that exist, lent or not. */
  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  /** Bytes of the buffers that are not lent, and how often there was one for a request and how often not. */
  get statistics(): PoolStatistics {
    return { pooledBytes: this.#freeBytes, poolHits: this.#hits, poolMisses: this.#misses };
  }

  /** A buffer of at least `bytes`, which reads as zeros if `zero` (see `DeviceMemory.stale`). */
  acquire(bytes: number, zero: boolean): DeviceMemory {
    const capacity = this.#capacityFor(bytes);
    return this.#lend(bytes, zero, capacity, this.#reuse(capacity));
  }

  /**
   * A buffer of at least `bytes` that comes back as soon as an operation is enqueued. It is rather a much larger free one than
   * a new one that the pool could not keep beside the others: making buffers and giving them up at every call can take as
   * long as the calls.
   */
  scratch(bytes: number): DeviceMemory {
    const capacity = this.#capacityFor(bytes);
    let reused = this.#reuse(capacity);
    if (this.#freeBytes + this.#scratchBytes + capacity > this.#options.poolBytes)
      reused ??= this.#reuseLarger(capacity);
    const memory = this.#lend(bytes, false, capacity, reused);
    memory.isScratch = true;
    this.#scratchBytes += memory.capacity;
    return memory;
  }

  #capacityFor(bytes: number): number {
    return Math.min(roundedCapacity(bytes), this.#options.maxBytes);
  }

  #lend(bytes: number, zero: boolean, capacity: number, reused: DeviceMemory | undefined): DeviceMemory {
    const memory = reused ?? this.#create(capacity);
    if (reused === undefined) this.#misses++;
    else {
      this.#hits++;
      // A new buffer reads as zeros by the rules of WebGPU.
      reused.stale = zero;
    }
    memory.bytes = bytes;
    return memory;
  }

  release(memory: DeviceMemory): void {
    if (memory.isScratch) {
      memory.isScratch = false;
      this.#scratchBytes -= memory.capacity;
    }
    if (memory.pendingReads.size > 0) {
      memory.isReturned = true;
      return;
    }
    if (memory.isRefused) {
      this.#discard(memory);
      return;
    }
    const bucket = this.#free.get(memory.capacity);
    if (bucket === undefined) this.#free.set(memory.capacity, [memory]);
    else bucket.push(memory);
    memory.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = memory;
    else this.#newest.newer = memory;
    this.#newest = memory;
    this.#freeBytes += memory.capacity;
    this.#shrink(this.#options.poolBytes);
  }

  /** Ends the hold of a read on a buffer. */
  letGo(memory: DeviceMemory, read: PendingRead): void {
    memory.pendingReads.delete(read);
    if (!memory.isReturned || memory.pendingReads.size > 0) return;
    memory.isReturned = false;
    this.release(memory);
  }

  /** To be called after each submit. */
  afterSubmit(): void {
    const condemned = this.#condemned;
    this.#condemned = [];
    for (const memory of condemned) this.#destroy(memory);
  }

  /** Evicts free buffers until at most `bytes` of all buffers are left, or none is free. */
  trim(bytes: number): void {
    const excess = this.#reservedBytes - bytes;
    if (excess > 0) this.#shrink(Math.max(this.#freeBytes - excess, 0));
  }

  /** Destroys all buffers, in use or not. Nothing recorded may be left unsubmitted. */
  destroyAll(): void {
    this.afterSubmit();
    for (const memory of [...this.#all]) this.#destroy(memory);
    this.#oldest = undefined;
    this.#newest = undefined;
    this.#free.clear();
    this.#freeBytes = 0;
  }

  /** A free buffer of this capacity, or of one little larger: at most an eighth, or 256 bytes, is wasted. */
  #reuse(capacity: number): DeviceMemory | undefined {
    const largest = Math.min(capacity + Math.max(capacity / 8, 256), this.#options.maxBytes);
    for (let size = capacity; size <= largest; size = roundedCapacity(size + 1)) {
      const memory = this.#take(size);
      if (memory !== undefined) return memory;
    }
    return undefined;
  }

  /** The smallest free buffer of at least this capacity. */
  #reuseLarger(capacity: number): DeviceMemory | undefined {
    let best = Number.POSITIVE_INFINITY;
    for (const [size, { length }] of this.#free)
      if (length > 0 && size >= capacity && size < best) best = size;
    return this.#take(best);
  }

  /** A free buffer of exactly this capacity. */
  #take(capacity: number): DeviceMemory | undefined {
    const memory = this.#free.get(capacity)?.pop();
    if (memory === undefined) return undefined;
    this.#unlink(memory);
    this.#freeBytes -= capacity;
    return memory;
  }

  #create(capacity: number): DeviceMemory {
    const { device } = this.#options;
    const room = this.#scarceBytes - this.#reservedBytes;
    if (capacity >= room) this.#shrink(Math.max(this.#freeBytes + room - capacity - 1, 0));
    const operation = this.#options.currentOperation();
    device.pushErrorScope("out-of-memory");
    const buffer = device.createBuffer({ label: `${capacity} bytes`, size: capacity, usage: BUFFER_USAGE });
    const memory = new DeviceMemory(buffer, capacity, this.#nextId++);
    device.popErrorScope().then(
      (error) => error && this.#onRefusal(memory, error.message, operation),
      // The scope is gone with the device, whose loss is reported elsewhere.
      () => {},
    );
    this.#reservedBytes += capacity;
    this.#all.add(memory);
    return memory;
  }

  /**
   * The intended contents of a refused buffer are lost, and its user learns it. Another attempt finds all the
   * memory that only the pool was holding.
   */
  #onRefusal(memory: DeviceMemory, reason: string, operation: string): void {
    memory.isRefused = true;
    this.#scarceBytes = Math.min(this.#scarceBytes, this.#reservedBytes);
    this.#shrink(0);
    this.#options.onOutOfMemory(memory.capacity, reason, operation);
  }

  /** Evicts the least recently used free buffers until at most `bytes` are kept. */
  #shrink(bytes: number): void {
    while (this.#freeBytes > bytes && this.#oldest !== undefined) this.#evict(this.#oldest);
  }

  /** Takes a buffer out of the list of those that are free. */
  #unlink(memory: DeviceMemory): void {
    const { older, newer } = memory;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    memory.older = undefined;
    memory.newer = undefined;
  }

  #evict(memory: DeviceMemory): void {
    const bucket = this.#free.get(memory.capacity)!;
    bucket.splice(bucket.indexOf(memory), 1);
    this.#unlink(memory);
    this.#freeBytes -= memory.capacity;
    this.#discard(memory);
  }

  #discard(memory: DeviceMemory): void {
    // Submitting commands that refer to a destroyed buffer is an error.
    if (memory.batch === this.#options.currentBatch()) this.#condemned.push(memory);
    else this.#destroy(memory);
  }

  #destroy(memory: DeviceMemory): void {
    this.#options.onDestroy(memory);
    memory.buffer.destroy();
    this.#all.delete(memory);
    this.#reservedBytes -= memory.capacity;
  }
}

/**
 * Returns one of few distinct sizes, so that a freed buffer suits later requests: steps of an eighth of the
 * next lower power of two, but at most 1 MiB, so that large buffers waste little.
 */
export function roundedCapacity(bytes: number): number {
  const exponent = bytes < 2 ** 31 ? 31 - Math.clz32(bytes) : Math.floor(Math.log2(bytes));
  const step = 2 ** Math.min(Math.max(exponent - 3, 8), 20);
  return Math.ceil(bytes / step) * step;
}
