import { BackendError, toBackendError } from "@backplane/core";
import { faultOf } from "./guard.js";
import { type DeviceMemory, type MemoryPool, type PendingRead, roundedCapacity } from "./memory.js";
import type { CommandQueue } from "./queue.js";
import type { Recorder } from "./recorder.js";

const STAGING_USAGE = 0x01 | 0x08; // MAP_READ | COPY_DST
const MAP_READ = 0x1;

/**
 * Longer reads come in pieces, so that the host copies one out of its staging buffer while the device
 * copies the next one into its own. On an H100, two of 8 MiB bring 1.05 times the rate of four of 4 MiB, and as much
 * as the host copies at all (8.4 GB/s); pieces of 1 MiB bring 5, one buffer made for the whole 2.6 (on an H200).
 */
const PIECE_BYTES = 1 << 23;

/** Bytes of all staging buffers together, in use or kept. Reads that do not fit wait in line. */
const STAGING_BYTES = 2 * PIECE_BYTES;

const SMALLEST_STAGING_BYTES = 1 << 12;

export interface ReadbackOptions {
  readonly device: GPUDevice;
  readonly queue: CommandQueue;
  readonly pool: MemoryPool;
  readonly recorder: Recorder;
  /** Makes calls that belong to a read: others may be under way. */
  within<Result>(body: () => Result): Result;
  onFault(error: BackendError): void;
}

/**
 * Brings bytes back to the host through a ring of staging buffers. Reads that come when the ring is full or commands are
 * held back, or that are longer than a piece, wait in line and take their bytes piece by piece. Meanwhile they hold on to the
 * buffer: a call that is about to write to it makes them copy the rest at once, to another buffer of the device
 * (`PendingRead.detach`). So a read costs device memory only if its source is overwritten before it has arrived.
 */
export class Readback {
  readonly #options: ReadbackOptions;
  /** Free staging buffers, the most recently used last. */
  #free: GPUBuffer[] = [];
  readonly #busy = new Set<GPUBuffer>();
  /** Reads with pieces that nobody has asked for yet, in the order of their calls. */
  readonly #line = new Set<LongRead>();
  readonly #waiting = new Set<(error: BackendError) => void>();
  #failure: BackendError | undefined;

  constructor(options: ReadbackOptions) {
    this.#options = options;
  }

  get reservedBytes(): number {
    return sum(this.#free) + sum(this.#busy);
  }

  /** Bytes of the staging buffers that no read uses. */
  get freeBytes(): number {
    return sum(this.#free);
  }

  /** Fills `destination` from a buffer as all commands before this one leave it. Any byte offset. */
  read(destination: Uint8Array<ArrayBufferLike>, source: DeviceMemory, byteOffset: number): Promise<void> {
    const { recorder, queue } = this.#options;
    // Promised zeros have to be there before anybody asks whether something writes or waits.
    recorder.touch(source);
    const length = wordsAround(byteOffset, byteOffset + destination.byteLength).length;
    const isShort = length <= PIECE_BYTES && this.#line.size === 0 && this.#hasRoom(length);
    if (isShort && !queue.isHolding) return this.#fetch(destination, source, byteOffset);
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#line.add(new LongRead({ ...this.#options, destination, source, byteOffset, resolve, reject }));
      this.advance();
    });
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

  /** Rejects all pending and later reads. */
  fail(error: BackendError): void {
    this.#failure ??= error;
    for (const reject of this.#waiting) reject(this.#failure);
    this.#waiting.clear();
    for (const read of this.#line) read.fail(this.#failure);
    this.#line.clear();
  }

  /** Destroys the buffers kept for later beyond this many bytes. */
  trim(bytes: number): void {
    while (this.#free.length > 0 && this.reservedBytes > bytes) this.#free.shift()!.destroy();
  }

  destroy(error: BackendError): void {
    this.fail(error);
    for (const staging of [...this.#free, ...this.#busy]) staging.destroy();
    this.#free = [];
    this.#busy.clear();
  }

  /** Requests as many pieces of the reads in line as there is room for, once the commands before them are submitted. */
  advance(): void {
    if (this.#options.queue.isHolding) return;
    for (const read of this.#line) {
      const onFailure = (error: unknown): void => {
        this.#line.delete(read);
        read.fail(toBackendError(error, "DEVICE_ERROR", "copyDtoH"));
      };
      try {
        while (!read.isAskedFor) {
          const { destination, source, byteOffset } = read.nextPiece();
          if (!this.#hasRoom(wordsAround(byteOffset, byteOffset + destination.byteLength).length)) return;
          read.ask(destination.byteLength, this.#fetch(destination, source, byteOffset), onFailure);
        }
        this.#line.delete(read);
      } catch (error) {
        // The destination was detached meanwhile. Others are behind it.
        onFailure(error);
      }
    }
  }

  /** Reads one piece at once. */
  async #fetch(
    destination: Uint8Array<ArrayBufferLike>,
    source: DeviceMemory,
    byteOffset: number,
  ): Promise<void> {
    const staging = this.#acquire(wordsAround(byteOffset, byteOffset + destination.byteLength).length);
    try {
      await this.#fill(destination, source, byteOffset, staging);
      this.#release(staging);
    } catch (error) {
      this.#busy.delete(staging);
      staging.destroy();
      throw toBackendError(error, "DEVICE_ERROR", "copyDtoH");
    } finally {
      this.advance();
    }
  }

  async #fill(
    destination: Uint8Array<ArrayBufferLike>,
    source: DeviceMemory,
    byteOffset: number,
    staging: GPUBuffer,
  ): Promise<void> {
    const { device, queue, recorder, onFault } = this.#options;
    // Copies move whole words; the buffer ends with one.
    const { start, length } = wordsAround(byteOffset, byteOffset + destination.byteLength);
    recorder.touch(source);
    // If the batch is refused, so is the copy, and the staging buffer keeps its old contents.
    device.pushErrorScope("validation");
    queue.encoder("copyDtoH").copyBufferToBuffer(source.buffer, start, staging, 0, length);
    const { operations } = queue;
    const submitted = queue.flush();
    const mapped = staging.mapAsync(MAP_READ, 0, length);
    // If the device is lost there is nothing to pop, and the map fails.
    const refused = device.popErrorScope().catch(() => null);
    await this.guard(mapped);
    queue.finished(submitted);
    const error = await refused;
    if (error !== null) {
      const fault = faultOf(error, operations);
      onFault(fault);
      throw fault;
    }
    const bytes = new Uint8Array(staging.getMappedRange(0, length));
    destination.set(bytes.subarray(byteOffset - start, byteOffset - start + destination.byteLength));
    staging.unmap();
  }

  /** Whether a piece may be asked for now; one always may. */
  #hasRoom(bytes: number): boolean {
    return this.#busy.size === 0 || sum(this.#busy) + stagingSize(bytes) <= STAGING_BYTES;
  }

  #acquire(bytes: number): GPUBuffer {
    const size = stagingSize(bytes);
    const index = this.#free.findLastIndex((buffer) => buffer.size >= bytes && buffer.size <= 4 * size);
    const staging = index >= 0 ? this.#free.splice(index, 1)[0]! : this.#create(size);
    this.#busy.add(staging);
    return staging;
  }

  #create(size: number): GPUBuffer {
    while (this.#free.length > 0 && this.reservedBytes + size > STAGING_BYTES) this.#free.shift()!.destroy();
    const { device, within } = this.#options;
    return within(() => device.createBuffer({ label: "read back", size, usage: STAGING_USAGE }));
  }

  #release(staging: GPUBuffer): void {
    // After destroy() the buffer is gone already.
    if (!this.#busy.delete(staging)) return;
    this.#free.push(staging);
    while (this.reservedBytes > STAGING_BYTES) this.#free.shift()!.destroy();
  }
}

interface LongReadOptions extends Pick<ReadbackOptions, "pool" | "recorder" | "within"> {
  readonly destination: Uint8Array<ArrayBufferLike>;
  readonly source: DeviceMemory;
  readonly byteOffset: number;
  resolve(): void;
  reject(error: BackendError): void;
}

/**
 * A read that takes its bytes in pieces. It holds on to its source until it has asked for them all. If one of them fails, it
 * rejects when none is under way any more: the destination is the caller's again.
 */
class LongRead implements PendingRead {
  readonly #options: LongReadOptions;
  /** Bytes of the destination, which may be detached or shortened later. */
  readonly #length: number;
  #source: DeviceMemory;
  /** The place of byte 0 of the destination in the source; below 0 if that byte is already taken. */
  #byteOffset: number;
  /** Bytes of the destination that have been asked for. */
  #next = 0;
  #pending = 0;
  #failure: BackendError | undefined;

  constructor(options: LongReadOptions) {
    this.#options = options;
    this.#length = options.destination.byteLength;
    this.#source = options.source;
    this.#byteOffset = options.byteOffset;
    this.#source.pendingReads.add(this);
  }

  get isAskedFor(): boolean {
    return this.#failure !== undefined || this.#next === this.#length;
  }

  /** Pieces end at multiples of a piece from the first word, so that all but the first start with a word. */
  nextPiece(): { destination: Uint8Array<ArrayBufferLike>; source: DeviceMemory; byteOffset: number } {
    const { destination } = this.#options;
    if (destination.byteLength !== this.#length)
      throw new BackendError("DEVICE_ERROR", "copyDtoH: the destination was detached or shortened meanwhile");
    const byteOffset = this.#byteOffset + this.#next;
    const length = Math.min(PIECE_BYTES - (byteOffset % 4), this.#length - this.#next);
    return {
      destination: destination.subarray(this.#next, this.#next + length),
      source: this.#source,
      byteOffset,
    };
  }

  /** `piece` brings the piece that `nextPiece` named, of so many bytes. */
  ask(bytes: number, piece: Promise<void>, onFailure: (error: unknown) => void): void {
    this.#next += bytes;
    this.#pending++;
    if (this.isAskedFor) this.#options.pool.letGo(this.#source, this);
    void piece.catch(onFailure).then(() => {
      this.#pending--;
      this.#settleAtEnd();
    });
  }

  fail(error: BackendError): void {
    if (this.#failure !== undefined) return;
    if (!this.isAskedFor) this.#options.pool.letGo(this.#source, this);
    this.#failure = error;
    this.#settleAtEnd();
  }

  #settleAtEnd(): void {
    if (this.#pending > 0 || !this.isAskedFor) return;
    const { resolve, reject } = this.#options;
    if (this.#failure === undefined) resolve();
    else reject(this.#failure);
  }

  detach(): void {
    this.#options.within(() => this.#copyRest());
  }

  #copyRest(): void {
    const { pool, recorder } = this.#options;
    // The device copies whole blocks fastest, and buffers consist of whole blocks.
    const first = this.#byteOffset + this.#next;
    const start = first - (first % 16);
    const byteLength = Math.ceil((this.#byteOffset + this.#length - start) / 16) * 16;
    const snapshot = pool.acquire(byteLength, false);
    recorder.run("copyDtoH", (context) =>
      context.copy(
        { memory: snapshot, byteOffset: 0, byteLength },
        { memory: this.#source, byteOffset: start, byteLength },
      ),
    );
    pool.letGo(this.#source, this);
    this.#source = snapshot;
    this.#byteOffset -= start;
    snapshot.pendingReads.add(this);
    // Nobody else owns it, so it returns to the pool as soon as this read lets go of it.
    pool.release(snapshot);
  }
}

/** The whole words that bytes from `first` to before `last` lie in. */
function wordsAround(first: number, last: number): { readonly start: number; readonly length: number } {
  const start = first - (first % 4);
  return { start, length: Math.ceil((last - start) / 4) * 4 };
}

function stagingSize(bytes: number): number {
  return Math.max(roundedCapacity(bytes), SMALLEST_STAGING_BYTES);
}

function sum(buffers: Iterable<GPUBuffer>): number {
  let bytes = 0;
  for (const { size } of buffers) bytes += size;
  return bytes;
}
