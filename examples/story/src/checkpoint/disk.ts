import { type FileHandle, open } from "node:fs/promises";
import { checkWritable, onDisk } from "@backplane/example-digits/disk.js";
import { type ByteSource, FileError } from "./file.js";

export { checkWritable, onDisk };

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
    return onDisk(async () => {
      const file = await open(path);
      return new FileSource(file, (await file.stat()).size);
    });
  }

  async read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const read = () => this.#file.read(bytes, done, length - done, offset + done);
      const { bytesRead } = await onDisk(read);
      if (bytesRead === 0) throw new FileError(`It ends after ${offset + done} bytes.`);
      done += bytesRead;
    }
    return bytes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }
}
