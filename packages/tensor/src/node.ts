import { randomUUID } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import type { ComputeBackend } from "@backplane/core";
import {
  type Checkpoint,
  type LoadOptions,
  readSafetensors,
  type SaveOptions,
  safetensorsChunks,
} from "./safetensors/index.js";
import type { Tensor } from "./tensor.js";

/**
 * Writes tensors to a file in the format safetensors. They are written to another file beside it first, which takes its
 * place when it is complete and on the disk: until then, whatever happens, the old file stays as it was.
 */
export async function save(
  path: string,
  tensors: ReadonlyMap<string, Tensor>,
  options: SaveOptions = {},
): Promise<void> {
  const unfinished = `${path}.${randomUUID()}.unfinished`;
  try {
    const file = await open(unfinished, "wx");
    try {
      for await (const chunk of safetensorsChunks(tensors, options)) await file.writeFile(chunk);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Makes the new name of a file last. Not every system can do that, or needs it. */
async function syncFolder(path: string): Promise<void> {
  try {
    const folder = await open(path);
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch {
    // Windows opens no folders; the file itself is complete.
  }
}

/** Reads a file in the format safetensors. Throws `INVALID_ARGUMENT` if it is broken. The tensors belong to no scope. */
export async function load(
  backend: ComputeBackend,
  path: string,
  options: LoadOptions = {},
): Promise<Checkpoint> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const read = async (start: number, length: number): Promise<Uint8Array> => {
      const bytes = new Uint8Array(length);
      let done = 0;
      while (done < length) {
        const { bytesRead } = await file.read(bytes, done, length - done, start + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
      return bytes.subarray(0, done);
    };
    return await readSafetensors(backend, { bytes: size, read }, options);
  } finally {
    await file.close();
  }
}
