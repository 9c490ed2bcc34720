import { access, constants, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { FileError } from "./file-error.js";

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
