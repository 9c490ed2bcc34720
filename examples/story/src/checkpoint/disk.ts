import { access, constants, type FileHandle, open, stat } from "node:fs/promises";
import { dirname } from "node:path";
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

/** Runs what reads or writes files: errors of the system, such as a full disk, become FileErrors. */
export async function onDisk<Result>(body: () => Promise<Result>): Promise<Result> {
  try {
    return await body();
  } catch (error) {
    if (error instanceof Error && "syscall" in error) throw new FileError(error.message);
    throw error;
  }
}

/** Throws a FileError if no file can be written there, so that this is known before there is something to write. */
export async function checkWritable(path: string): Promise<void> {
  await onDisk(async () => {
    await access(dirname(path), constants.W_OK | constants.X_OK);
    const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
    });
    if (found === undefined) return;
    if (!found.isFile()) throw new FileError(`${path} is no file that could be replaced.`);
    await access(path, constants.W_OK);
  });
}
