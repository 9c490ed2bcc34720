/** Storage and both ends of copies: every buffer that tensors or scratch live in. */
const BUFFER_USAGE = 0x80 | 0x04 | 0x08; // STORAGE | COPY_SRC | COPY_DST

/** Buffers are this long or a multiple of it, so that views as vec4 reach their last byte. */
export const BUFFER_GRANULARITY = 16;

/** One GPU buffer, lent out by `MemoryPool`. */
export class DeviceMemory {
  readonly buffer: GPUBuffer;
  /** Bytes. A multiple of `BUFFER_GRANULARITY`. */
  readonly capacity: number;
  /** Distinguishes buffers in cache keys. */
  readonly id: number;
  /** As many as were asked for; what follows is never looked at. */
  bytes = 0;
  /** The batch of commands that last used it; see `CommandQueue.batch`. */
  batch = 0;
  /** True: zeros were promised and the bytes are still those of an earlier owner. */
  stale = false;
  /** Keys of cached bind groups that refer to the buffer. */
  readonly bindGroups: Set<string> = new Set();

  constructor(buffer: GPUBuffer, capacity: number, id: number) {
    this.buffer = buffer;
    this.capacity = capacity;
    this.id = id;
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
  /** The device refused to make a buffer. */
  onOutOfMemory(bytes: number, reason: string): void;
}

/** Larger buffers are made inside an error scope of their own, so that a failure names its size. */
const LARGE_BYTES = 1 << 24;

/**
 * Lends GPU buffers and keeps returned ones for reuse. A returned buffer may be lent again at once:
 * the queue of the device runs in order, so the new owner's commands come after the old one's.
 */
export class MemoryPool {
  readonly #options: MemoryPoolOptions;
  /** Free buffers by capacity, the most recently used last. */
  readonly #free = new Map<number, DeviceMemory[]>();
  /** All free buffers, the least recently used first. */
  readonly #order = new Set<DeviceMemory>();
  readonly #live = new Set<DeviceMemory>();
  /** To be destroyed once the commands that use them have been submitted. */
  #condemned: DeviceMemory[] = [];
  #freeBytes = 0;
  #reservedBytes = 0;
  #nextId = 1;

  constructor(options: MemoryPoolOptions) {
    this.#options = options;
  }

  /** Bytes of all buffers that exist, lent or not. */
  get reservedBytes(): number {
    return this.#reservedBytes;
  }

  /** A buffer of at least `bytes`, which reads as zeros if `zero` (see `DeviceMemory.stale`). */
  acquire(bytes: number, zero: boolean): DeviceMemory {
    const capacity = Math.min(roundedCapacity(bytes), this.#options.maxBytes);
    const reused = this.#free.get(capacity)?.pop();
    const memory = reused ?? this.#create(capacity);
    if (reused !== undefined) {
      this.#order.delete(reused);
      this.#freeBytes -= capacity;
      // A new buffer reads as zeros by the rules of WebGPU.
      reused.stale = zero;
    }
    memory.bytes = bytes;
    this.#live.add(memory);
    return memory;
  }

  release(memory: DeviceMemory): void {
    this.#live.delete(memory);
    const bucket = this.#free.get(memory.capacity);
    if (bucket === undefined) this.#free.set(memory.capacity, [memory]);
    else bucket.push(memory);
    this.#order.add(memory);
    this.#freeBytes += memory.capacity;
    for (const oldest of this.#order) {
      if (this.#freeBytes <= this.#options.poolBytes) break;
      this.#evict(oldest);
    }
  }

  /** To be called after each submit. */
  afterSubmit(): void {
    const condemned = this.#condemned;
    this.#condemned = [];
    for (const memory of condemned) this.#destroy(memory);
  }

  /** Destroys everything, lent or not. Nothing that is recorded and not submitted may be left. */
  destroyAll(): void {
    this.afterSubmit();
    for (const memory of [...this.#order, ...this.#live]) this.#destroy(memory);
    this.#order.clear();
    this.#live.clear();
    this.#free.clear();
    this.#freeBytes = 0;
  }

  #create(capacity: number): DeviceMemory {
    const { device } = this.#options;
    const scoped = capacity >= LARGE_BYTES;
    if (scoped) device.pushErrorScope("out-of-memory");
    const buffer = device.createBuffer({ label: `${capacity} bytes`, size: capacity, usage: BUFFER_USAGE });
    if (scoped)
      device.popErrorScope().then(
        (error) => error && this.#options.onOutOfMemory(capacity, error.message),
        // The scope is gone with the device, whose loss is reported elsewhere.
        () => {},
      );
    this.#reservedBytes += capacity;
    return new DeviceMemory(buffer, capacity, this.#nextId++);
  }

  #evict(memory: DeviceMemory): void {
    const bucket = this.#free.get(memory.capacity)!;
    bucket.splice(bucket.indexOf(memory), 1);
    this.#order.delete(memory);
    this.#freeBytes -= memory.capacity;
    // Submitting commands that refer to a destroyed buffer is an error.
    if (memory.batch === this.#options.currentBatch()) this.#condemned.push(memory);
    else this.#destroy(memory);
  }

  #destroy(memory: DeviceMemory): void {
    this.#options.onDestroy(memory);
    memory.buffer.destroy();
    this.#reservedBytes -= memory.capacity;
  }
}

/**
 * Few distinct sizes, so that a freed buffer suits later requests: steps of an eighth of the next
 * lower power of two, but no more than 1 MiB, so that large buffers waste little.
 */
export function roundedCapacity(bytes: number): number {
  const step = 2 ** Math.min(Math.max(Math.floor(Math.log2(bytes)) - 3, 8), 20);
  return Math.ceil(bytes / step) * step;
}
