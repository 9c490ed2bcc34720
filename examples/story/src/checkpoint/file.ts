import { type FileHandle, open } from "node:fs/promises";

/** A file that is not what it should be; the message is for the person who named it. */
export class FileError extends Error {}

/** Bytes that can be read piece by piece. */
export interface ByteSource {
  readonly size: number;
  /** Returns exactly these bytes, which must be there. */
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
}

/** An open file. */
export class FileSource implements ByteSource, AsyncDisposable {
  readonly size: number;
  readonly #file: FileHandle;

  private constructor(file: FileHandle, size: number) {
    this.#file = file;
    this.size = size;
  }

  /** Throws a FileError if there is no such file. */
  static async open(path: string): Promise<FileSource> {
    try {
      const file = await open(path);
      return new FileSource(file, (await file.stat()).size);
    } catch (error) {
      throw new FileError((error as Error).message);
    }
  }

  async read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await this.#file.read(bytes, done, length - done, offset + done);
      if (bytesRead === 0) throw new FileError(`It ends after ${offset + done} bytes.`);
      done += bytesRead;
    }
    return bytes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }
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
