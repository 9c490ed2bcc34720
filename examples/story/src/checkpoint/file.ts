/** A file that is not what it should be; the message is for the person who named it. */
export class FileError extends Error {}

/** Bytes that can be read piece by piece. */
export interface ByteSource {
  readonly size: number;
  /** Returns exactly these bytes, which must be there. */
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
}

/** Bytes in memory. */
export class MemorySource implements ByteSource {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get size(): number {
    return this.#bytes.length;
  }

  async read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    return this.#bytes.slice(offset, offset + length);
  }
}
