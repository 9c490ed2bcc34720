import { type FileHandle, open } from "node:fs/promises";
import { type ByteSource, FileError } from "./file.js";

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
