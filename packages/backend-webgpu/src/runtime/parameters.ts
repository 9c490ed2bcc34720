/** The largest parameter block: the size that the dynamic binding shows to shaders. A multiple of any alignment. */
export const PARAMETER_BLOCK_BYTES = 1024;

const UNIFORM_USAGE = 0x40 | 0x08; // UNIFORM | COPY_DST

/** Parameters of one program: 32-bit words, seen as integers and as numbers. */
export class ParameterBlock {
  readonly bytes: ArrayBuffer;
  readonly words: Uint32Array<ArrayBuffer>;
  readonly floats: Float32Array<ArrayBuffer>;

  constructor(bytes: number) {
    this.bytes = new ArrayBuffer(bytes);
    this.words = new Uint32Array(this.bytes);
    this.floats = new Float32Array(this.bytes);
  }

  /** A block of its own with the first `count` words. */
  copy(count: number): ParameterBlock {
    const copy = new ParameterBlock(4 * count);
    copy.words.set(this.words.subarray(0, count));
    return copy;
  }
}

/**
 * Room for the parameter blocks of one batch in a uniform buffer; a binding with a dynamic offset shows one
 * block. The host holds the blocks until the batch is submitted: writes of the queue take effect between
 * submits, so a single buffer serves all batches.
 */
export class ParameterRing {
  /** Bindings show `PARAMETER_BLOCK_BYTES` of it, from a dynamic offset on. */
  readonly buffer: GPUBuffer;
  readonly #queue: GPUQueue;
  readonly #alignmentWords: number;
  readonly #words: Uint32Array<ArrayBuffer>;
  /** Words taken by the blocks of this batch. */
  #taken = 0;
  /** Words from the first one on that the buffer has as they were before this batch. */
  #uploaded = 0;
  /** Whether this batch has others in their place. */
  #hasChanged = false;
  /** The latest block: its first word, and how many words it has. */
  #latest = 0;
  #latestWords = 0;

  constructor(device: GPUDevice, blocks: number) {
    const bytes = blocks * PARAMETER_BLOCK_BYTES;
    this.#queue = device.queue;
    this.#alignmentWords = device.limits.minUniformBufferOffsetAlignment / 4;
    this.#words = new Uint32Array(bytes / 4);
    this.buffer = device.createBuffer({
      label: "parameters",
      // Any block may be the last one, and the binding reaches its full length beyond the start of it.
      size: bytes + PARAMETER_BLOCK_BYTES,
      usage: UNIFORM_USAGE,
    });
  }

  /** Bytes of device memory. */
  get reservedBytes(): number {
    return this.buffer.size;
  }

  /** Keeps the first `count` words for this batch. Returns the byte offset of the block that holds them. */
  keep(words: Uint32Array, count: number): number {
    if (this.#repeats(words, count)) return 4 * this.#latest;
    const first = this.#taken;
    for (let i = 0; i < count; i++) {
      if (this.#words[first + i] === words[i]) continue;
      this.#words[first + i] = words[i]!;
      this.#hasChanged = true;
    }
    this.#latest = first;
    this.#latestWords = count;
    this.#taken = Math.ceil((first + count) / this.#alignmentWords) * this.#alignmentWords;
    return 4 * first;
  }

  /** To be called before the batch is submitted. Programs that repeat themselves have the same blocks again. */
  upload(): void {
    if (this.#hasChanged || this.#taken > this.#uploaded) {
      this.#queue.writeBuffer(this.buffer, 0, this.#words, 0, this.#taken);
      this.#uploaded = Math.max(this.#uploaded, this.#taken);
      this.#hasChanged = false;
    }
    this.clear();
  }

  /** Forgets the blocks of this batch. */
  clear(): void {
    if (this.#hasChanged) this.#uploaded = 0;
    this.#hasChanged = false;
    this.#taken = 0;
    this.#latestWords = 0;
  }

  /** The device may not have what was uploaded. */
  distrust(): void {
    this.#uploaded = 0;
  }

  destroy(): void {
    this.buffer.destroy();
  }

  /** Whether the words equal those of the latest block, as in a series of equal operations. */
  #repeats(words: Uint32Array, count: number): boolean {
    if (count !== this.#latestWords) return false;
    for (let i = 0; i < count; i++) if (this.#words[this.#latest + i] !== words[i]) return false;
    return true;
  }
}
