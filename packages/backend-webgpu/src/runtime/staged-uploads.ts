import { toBackendError } from "@backplane/core";
import type { DeviceMemory } from "./memory.js";
import type { CommandQueue } from "./queue.js";
import type { Recorder } from "./recorder.js";

const STAGING_USAGE = 0x02 | 0x04; // MAP_WRITE | COPY_SRC
const MAP_WRITE = 0x2;

/**
 * Two of 8 MiB are as fast as any others from 2 to 16 MiB: 6.1 GB/s of shared memory to an H100. There are no more, in use or kept,
 * whatever is uploaded at once.
 */
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

interface Staging {
  readonly buffer: GPUBuffer;
  /** Free: mapped for writing. Filling: in the hands of a piece. Sent: the device may still copy out of it. */
  state: "free" | "filling" | "sent";
  /** Resolves when the device has copied what was sent last. Failures are those of the device. */
  arrived: Promise<void>;
}

/**
 * Sends bytes of the host that stay as they are until all of them are there. `writeBuffer` would copy those of shared memory twice,
 * because Dawn refuses views of it: 3.7 GB/s. All uploads share a ring of staging buffers, and their pieces stand in one line.
 */
export class StagedUploads {
  readonly #options: StagedUploadsOptions;
  /** All staging buffers, the one sent last at the end. */
  readonly #ring = new Set<Staging>();
  /** Resolves when the last piece in line is sent, or failed. */
  #line: Promise<void> = Promise.resolve();

  constructor(options: StagedUploadsOptions) {
    this.#options = options;
  }

  /** Bytes of all staging buffers, in use or kept. */
  get reservedBytes(): number {
    return this.#ring.size * PIECE_BYTES;
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
    const { recorder, enter, guard } = this.#options;
    enter();
    // At the call: if promised zeros wait for their pipeline, the pieces must wait for the zeros.
    recorder.run("copyHtoD", () => recorder.touch(destination));
    const arrivals: Promise<void>[] = [];
    for (let start = 0; start < source.byteLength; start += PIECE_BYTES) {
      const piece = source.subarray(start, start + PIECE_BYTES);
      const sent = guard(this.#line).then(() => this.#send(destination, byteOffset + start, piece));
      this.#line = sent.then(ignore, ignore);
      arrivals.push((await sent).arrived);
    }
    await guard(Promise.all(arrivals));
  }

  /** Destroys the buffers that are not in use. */
  trim(): void {
    for (const staging of this.#free) this.#destroy(staging);
  }

  /** Destroys all buffers. The guard must reject everything from now on. */
  destroy(): void {
    for (const staging of [...this.#ring]) this.#destroy(staging);
  }

  get #free(): Staging[] {
    return [...this.#ring].filter(({ state }) => state === "free");
  }

  /** Nobody else does so meanwhile. */
  async #send(
    destination: DeviceMemory,
    byteOffset: number,
    piece: Uint8Array<ArrayBufferLike>,
  ): Promise<{ readonly arrived: Promise<void> }> {
    const { queue, recorder, enter, guard } = this.#options;
    const staging = await this.#take();
    const { buffer } = staging;
    try {
      while (queue.isHolding) await guard(queue.released());
      new Uint8Array(buffer.getMappedRange(0, piece.byteLength)).set(piece);
      buffer.unmap();
      enter();
      recorder.run("copyHtoD", () => recorder.touch(destination));
      queue
        .encoder("copyHtoD")
        .copyBufferToBuffer(buffer, 0, destination.buffer, byteOffset, piece.byteLength);
      queue.flush();
    } catch (error) {
      this.#destroy(staging);
      // A lost device refuses to show the buffer before anybody hears of the loss.
      throw toBackendError(error, "DEVICE_LOST", "copyHtoD");
    }
    return { arrived: this.#mapAgain(staging) };
  }

  /** Returns a buffer that is mapped. All others are free or sent. */
  async #take(): Promise<Staging> {
    let staging = this.#free[0];
    while (staging === undefined && this.#ring.size === BUFFERS) {
      const [oldest] = this.#ring;
      await this.#options.guard(oldest!.arrived);
      staging = this.#free[0];
    }
    staging ??= this.#create();
    staging.state = "filling";
    return staging;
  }

  #mapAgain(staging: Staging): Promise<void> {
    this.#ring.delete(staging);
    this.#ring.add(staging);
    staging.state = "sent";
    // A buffer that the device refused was reported when it was made.
    const { device } = this.#options;
    device.pushErrorScope("validation");
    const mapped = staging.buffer.mapAsync(MAP_WRITE);
    void device.popErrorScope().catch(ignore);
    staging.arrived = mapped.then(
      () => {
        staging.state = "free";
      },
      (error) => {
        this.#destroy(staging);
        throw error;
      },
    );
    // If nobody comes to wait for it.
    staging.arrived.catch(ignore);
    return staging.arrived;
  }

  #create(): Staging {
    const { device, enter } = this.#options;
    enter();
    const descriptor = { label: "upload", size: PIECE_BYTES, usage: STAGING_USAGE, mappedAtCreation: true };
    const buffer = device.createBuffer(descriptor);
    const staging: Staging = { buffer, state: "free", arrived: Promise.resolve() };
    this.#ring.add(staging);
    return staging;
  }

  #destroy(staging: Staging): void {
    this.#ring.delete(staging);
    staging.buffer.destroy();
  }
}

function ignore(): void {}
