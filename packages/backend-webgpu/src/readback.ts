import { BackendError, toBackendError } from "@backplane/core";
import { roundedCapacity } from "./memory.js";
import type { CommandQueue } from "./queue.js";

const STAGING_USAGE = 0x01 | 0x08; // MAP_READ | COPY_DST
const MAP_READ = 0x1;

/** Staging buffers that are not in use are kept up to this many bytes. */
const STAGING_POOL_BYTES = 1 << 26;

const SMALLEST_STAGING_BYTES = 1 << 12;

/** Brings bytes back to the host. */
export class Readback {
  readonly #device: GPUDevice;
  readonly #queue: CommandQueue;
  /** Free staging buffers, the most recently used last. */
  #free: GPUBuffer[] = [];
  readonly #busy = new Set<GPUBuffer>();
  readonly #waiting = new Set<(error: BackendError) => void>();
  readonly #onFault: (error: BackendError) => void;
  #failure: BackendError | undefined;

  constructor(device: GPUDevice, queue: CommandQueue, onFault: (error: BackendError) => void) {
    this.#device = device;
    this.#queue = queue;
    this.#onFault = onFault;
  }

  get reservedBytes(): number {
    return sum(this.#free) + sum(this.#busy);
  }

  /** Fills `destination` from a buffer as all commands before this one leave it. Any byte offset. */
  async read(destination: Uint8Array<ArrayBufferLike>, source: GPUBuffer, byteOffset: number): Promise<void> {
    // Copies move whole words; the buffer ends with one.
    const start = byteOffset - (byteOffset % 4);
    const length = Math.ceil((byteOffset + destination.byteLength - start) / 4) * 4;
    const staging = this.#acquire(length);
    try {
      // Where the batch is refused, so is the copy, and the staging buffer holds what it held before.
      this.#device.pushErrorScope("validation");
      this.#queue.encoder().copyBufferToBuffer(source, start, staging, 0, length);
      this.#queue.flush();
      // Where the device is lost there is nothing to pop; the map fails then.
      const refused = this.#device.popErrorScope().catch(() => null);
      await this.guard(staging.mapAsync(MAP_READ, 0, length));
      const error = await refused;
      if (error !== null) {
        const fault = new BackendError("DEVICE_ERROR", `copyDtoH: the device reported: ${error.message}`, {
          operation: "copyDtoH",
          cause: error,
        });
        this.#onFault(fault);
        throw fault;
      }
      const bytes = new Uint8Array(staging.getMappedRange(0, length));
      destination.set(bytes.subarray(byteOffset - start, byteOffset - start + destination.byteLength));
      staging.unmap();
    } catch (error) {
      this.#busy.delete(staging);
      staging.destroy();
      throw toBackendError(error, "DEVICE_ERROR", "copyDtoH");
    }
    this.#release(staging);
  }

  /** Settles as the promise does, unless the device is lost or closed first: then rejects with that. */
  guard(work: Promise<unknown>): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) reject(this.#failure);
      this.#waiting.add(reject);
      const settle = (act: () => void) => () => {
        this.#waiting.delete(reject);
        act();
      };
      work.then(
        settle(() => (this.#failure === undefined ? resolve() : reject(this.#failure))),
        (error) => settle(() => reject(this.#failure ?? toBackendError(error, "DEVICE_LOST", "copyDtoH")))(),
      );
    });
  }

  /** Rejects all that waits and whatever comes later. */
  fail(error: BackendError): void {
    this.#failure ??= error;
    for (const reject of this.#waiting) reject(this.#failure);
    this.#waiting.clear();
  }

  destroy(error: BackendError): void {
    this.fail(error);
    for (const staging of [...this.#free, ...this.#busy]) staging.destroy();
    this.#free = [];
    this.#busy.clear();
  }

  #acquire(bytes: number): GPUBuffer {
    const wanted = Math.max(roundedCapacity(bytes), SMALLEST_STAGING_BYTES);
    const size = Math.min(wanted, this.#device.limits.maxBufferSize);
    const index = this.#free.findLastIndex((buffer) => buffer.size >= bytes && buffer.size <= 4 * size);
    const staging =
      index >= 0
        ? this.#free.splice(index, 1)[0]!
        : this.#device.createBuffer({ label: "read back", size, usage: STAGING_USAGE });
    this.#busy.add(staging);
    return staging;
  }

  #release(staging: GPUBuffer): void {
    // After destroy() the buffer is gone already.
    if (!this.#busy.delete(staging)) return;
    this.#free.push(staging);
    while (sum(this.#free) > STAGING_POOL_BYTES) this.#free.shift()!.destroy();
  }
}

function sum(buffers: Iterable<GPUBuffer>): number {
  let bytes = 0;
  for (const { size } of buffers) bytes += size;
  return bytes;
}
