import type { DeviceMemory } from "./memory.js";
import type { CommandQueue } from "./queue.js";
import type { Recorder } from "./recorder.js";

const STAGING_USAGE = 0x02 | 0x04; // MAP_WRITE | COPY_SRC
const MAP_WRITE = 0x2;

/** Two of 8 MiB are as fast as any others from 2 to 16 MiB: 6.1 GB/s of shared memory to an H100. */
const PIECE_BYTES = 1 << 23;
const BUFFERS = 2;

export interface StagedUploadsOptions {
  readonly device: GPUDevice;
  readonly queue: CommandQueue;
  readonly recorder: Recorder;
  /** Commands follow. */
  enter(): void;
  /** Settles as the promise does, unless the device is lost or closed first. */
  guard(work: Promise<unknown>): Promise<void>;
}

/** A staging buffer. It is mapped for writing when `ready` resolves. */
interface Staging {
  readonly buffer: GPUBuffer;
  ready: Promise<unknown>;
}

/**
 * Sends bytes of the host that stay as they are until all of them are there. `writeBuffer` would copy those of shared memory twice,
 * because Dawn refuses views of it: 3.7 GB/s.
 */
export class StagedUploads {
  readonly #options: StagedUploadsOptions;
  /** Not in use. */
  #free: Staging[] = [];
  #count = 0;

  constructor(options: StagedUploadsOptions) {
    this.#options = options;
  }

  /** Bytes of all staging buffers, in use or kept. */
  get reservedBytes(): number {
    return this.#count * PIECE_BYTES;
  }

  get freeBytes(): number {
    return this.#free.length * PIECE_BYTES;
  }

  /** Whole words to a whole word. Nobody else uses the words meanwhile. */
  async write(
    destination: DeviceMemory,
    byteOffset: number,
    source: Uint8Array<ArrayBufferLike>,
  ): Promise<void> {
    const { queue, recorder, enter, guard } = this.#options;
    const ring = Array.from({ length: BUFFERS }, () => this.#free.pop() ?? this.#create());
    try {
      for (let start = 0, i = 0; start < source.byteLength; start += PIECE_BYTES, i++) {
        const staging = ring[i % BUFFERS]!;
        await guard(staging.ready);
        while (queue.isHolding) await guard(queue.released());
        const piece = source.subarray(start, start + PIECE_BYTES);
        const { buffer } = staging;
        new Uint8Array(buffer.getMappedRange(0, piece.byteLength)).set(piece);
        buffer.unmap();
        enter();
        recorder.touch(destination);
        queue
          .encoder()
          .copyBufferToBuffer(buffer, 0, destination.buffer, byteOffset + start, piece.byteLength);
        queue.flush();
        staging.ready = buffer.mapAsync(MAP_WRITE);
        // If nobody comes to wait for it, its failure is that of the device.
        staging.ready.catch(() => {});
      }
      for (const { ready } of ring) await guard(ready);
      this.#free.push(...ring);
    } catch (error) {
      for (const staging of ring) this.#destroy(staging);
      throw error;
    }
  }

  /** Destroys the buffers that are not in use. */
  trim(): void {
    for (const staging of this.#free) this.#destroy(staging);
    this.#free = [];
  }

  #create(): Staging {
    const { device } = this.#options;
    const descriptor = { label: "upload", size: PIECE_BYTES, usage: STAGING_USAGE, mappedAtCreation: true };
    const buffer = device.createBuffer(descriptor);
    this.#count++;
    return { buffer, ready: Promise.resolve() };
  }

  #destroy({ buffer }: Staging): void {
    buffer.destroy();
    this.#count--;
  }
}
