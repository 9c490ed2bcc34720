/**
 * Most bytes to upload between two submits. `writeBuffer` stages its bytes in a ring of 4 MiB (in Dawn, and
 * so in Chromium), takes new memory if that is full, and looks for what the device has read only when
 * something is submitted. Kept inside that ring, 256 MiB reach an H100 as fast as its host copies memory; in pieces of
 * 4 MiB at a seventh of that. Pieces of 1.5 MiB are 1.03 to 1.11 times as fast as those of 1 MiB; two of 2 MiB leave no
 * room in the ring for anything else. Staging buffers of our own that stay mapped reach 0.96 of it at best, but a call
 * cannot wait for their return and would need as many as it has bytes; buffers made for the call reach a seventh.
 */
const UNSUBMITTED_BYTES = 3 << 19;

/** Sends bytes of the host to buffers, ahead of commands that are recorded and not submitted. */
export class Uploads {
  readonly #queue: Pick<GPUQueue, "writeBuffer">;
  readonly #submitNothing: () => void;
  #unsubmittedBytes = 0;
  /** Bytes that cannot be passed to the device directly go through this array. */
  #bounce: Uint8Array<ArrayBuffer> | undefined;

  /** `submitNothing` lets the device notice what it has done, as every submit does. */
  constructor(queue: Pick<GPUQueue, "writeBuffer">, submitNothing: () => void) {
    this.#queue = queue;
    this.#submitNothing = submitNothing;
  }

  /** Whole words to a whole word. The source may change when this returns. */
  write(destination: GPUBuffer, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    for (let start = 0; start < source.byteLength; ) {
      const length = Math.min(UNSUBMITTED_BYTES - this.#unsubmittedBytes, source.byteLength - start);
      const piece = this.#plain(source.subarray(start, start + length));
      this.#queue.writeBuffer(destination, byteOffset + start, piece);
      start += length;
      this.#unsubmittedBytes += length;
      if (this.#unsubmittedBytes < UNSUBMITTED_BYTES) continue;
      this.#submitNothing();
      this.afterSubmit();
    }
  }

  /** To be called after each submit. */
  afterSubmit(): void {
    this.#unsubmittedBytes = 0;
  }

  /** Dawn refuses views of shared memory, and browsers may refuse resizable memory: those are copied. */
  #plain(bytes: Uint8Array<ArrayBufferLike>): Uint8Array<ArrayBuffer> {
    const { buffer } = bytes;
    const isPlain = buffer instanceof ArrayBuffer && !(buffer as { resizable?: boolean }).resizable;
    if (isPlain) return bytes as Uint8Array<ArrayBuffer>;
    this.#bounce ??= new Uint8Array(UNSUBMITTED_BYTES);
    this.#bounce.set(bytes);
    return this.#bounce.subarray(0, bytes.byteLength);
  }
}
