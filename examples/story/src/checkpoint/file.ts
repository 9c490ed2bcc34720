import { FileError } from "@backplane/example-digits/file-error.js";

export { FileError };

/** Puts the name of a file before what is wrong with it. */
export async function named<Result>(name: string, body: () => Promise<Result>): Promise<Result> {
  try {
    return await body();
  } catch (error) {
    if (error instanceof FileError) throw new FileError(`${name}: ${error.message}`);
    throw error;
  }
}

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
