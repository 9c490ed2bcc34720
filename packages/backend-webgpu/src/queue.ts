/** Dispatches per submit. Enough to spread its cost, few enough that no driver's watchdog fires. */
const DISPATCHES_PER_BATCH = 64;

/** The largest parameter block: what the dynamic binding shows to shaders. A multiple of any alignment. */
export const PARAMETER_BLOCK_BYTES = 1024;

/** Room for the blocks of one batch. */
const PARAMETER_BYTES = DISPATCHES_PER_BATCH * PARAMETER_BLOCK_BYTES;

const UNIFORM_USAGE = 0x40 | 0x08; // UNIFORM | COPY_DST

/** Room for one parameter block. Both views show the whole batch; the block starts at `word`. */
export interface ParameterBlock {
  readonly words: Uint32Array;
  readonly floats: Float32Array;
  readonly word: number;
  /** For the dynamic offset of the binding. */
  readonly byteOffset: number;
}

/**
 * Records commands and submits them in batches. One compute pass stays open across operations. It
 * holds each dispatch's parameters on the host until the batch is submitted: writes of the queue take
 * effect between submits, so a single uniform buffer serves all batches.
 */
export class CommandQueue {
  readonly parameterBuffer: GPUBuffer;
  readonly #device: GPUDevice;
  readonly #alignment: number;
  readonly #onSubmit: () => void;
  readonly #words = new Uint32Array(PARAMETER_BYTES / 4);
  readonly #floats = new Float32Array(this.#words.buffer);
  #encoder: GPUCommandEncoder | undefined;
  #pass: GPUComputePassEncoder | undefined;
  /** What the open pass has set. */
  #pipeline: GPUComputePipeline | undefined;
  #buffers: GPUBindGroup | undefined;
  /** Passed as a typed array, which Dawn takes much faster than a list. */
  readonly #offset = new Uint32Array(1);
  #parameterBytes = 0;
  #dispatches = 0;
  #batch = 1;
  #flushScheduled = false;

  constructor(device: GPUDevice, onSubmit: () => void) {
    this.#device = device;
    this.#alignment = device.limits.minUniformBufferOffsetAlignment;
    this.#onSubmit = onSubmit;
    this.parameterBuffer = device.createBuffer({
      label: "parameters",
      // Any block may be the last one, and the binding reaches its full length beyond the start of it.
      size: PARAMETER_BYTES + PARAMETER_BLOCK_BYTES,
      usage: UNIFORM_USAGE,
    });
  }

  /** The number of the batch that is being recorded. What was stamped with a lower one is submitted. */
  get batch(): number {
    return this.#batch;
  }

  /** To be called before recording a dispatch. Submits first where the batch is full. */
  reserveParameters(bytes: number): ParameterBlock {
    if (this.#dispatches >= DISPATCHES_PER_BATCH) this.flush();
    const byteOffset = this.#parameterBytes;
    this.#parameterBytes = Math.ceil((byteOffset + bytes) / this.#alignment) * this.#alignment;
    return { words: this.#words, floats: this.#floats, word: byteOffset / 4, byteOffset };
  }

  dispatch(
    pipeline: GPUComputePipeline,
    buffers: GPUBindGroup,
    parameters: GPUBindGroup,
    parameterOffset: number,
    [x, y, z]: readonly [number, number, number],
  ): void {
    if (this.#pass === undefined) {
      this.#pass = this.encoder().beginComputePass();
      this.#pipeline = undefined;
      this.#buffers = undefined;
    }
    const pass = this.#pass;
    if (this.#pipeline !== pipeline) {
      pass.setPipeline(pipeline);
      this.#pipeline = pipeline;
    }
    if (this.#buffers !== buffers) {
      pass.setBindGroup(0, buffers);
      this.#buffers = buffers;
    }
    this.#offset[0] = parameterOffset;
    pass.setBindGroup(1, parameters, this.#offset, 0, 1);
    pass.dispatchWorkgroups(x, y, z);
    this.#dispatches++;
  }

  /** For commands outside compute passes. */
  encoder(): GPUCommandEncoder {
    this.#pass?.end();
    this.#pass = undefined;
    if (this.#encoder === undefined) {
      this.#encoder = this.#device.createCommandEncoder();
      this.#scheduleFlush();
    }
    return this.#encoder;
  }

  /** Submits what has been recorded. */
  flush(): void {
    if (this.#encoder !== undefined) {
      this.#pass?.end();
      if (this.#parameterBytes > 0)
        this.#device.queue.writeBuffer(this.parameterBuffer, 0, this.#words, 0, this.#parameterBytes / 4);
      this.#device.queue.submit([this.#encoder.finish()]);
      this.#batch++;
    }
    this.#reset();
    this.#onSubmit();
  }

  /** Drops what has been recorded and the buffer. The queue is not usable after. */
  destroy(): void {
    this.#pass?.end();
    this.#reset();
    this.parameterBuffer.destroy();
  }

  #reset(): void {
    this.#encoder = undefined;
    this.#pass = undefined;
    this.#parameterBytes = 0;
    this.#dispatches = 0;
  }

  /** Work starts when the caller's synchronous code ends, whether or not anything is awaited. */
  #scheduleFlush(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    queueMicrotask(() => {
      this.#flushScheduled = false;
      if (this.#encoder !== undefined) this.flush();
    });
  }
}
