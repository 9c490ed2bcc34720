import type { Checkpoint } from "./checkpoint.js";
import { type ByteSource, FileError } from "./file.js";
import { readGguf } from "./gguf.js";
import { readLlama2c } from "./llama2c.js";
import { looksLikeSafetensors } from "./safetensors.js";
import { readTrained } from "./trained.js";

/** The first bytes of a GGUF file. */
const ggufMagic = "GGUF";

/** Bytes that tell the kinds of files apart. */
const START_BYTES = 12;

/** Reads everything but the weights. Throws a FileError if the file is cut off or of another kind. */
export async function readCheckpoint(file: ByteSource): Promise<Checkpoint> {
  if (file.size < START_BYTES) throw new FileError(`It has ${file.size} bytes, which is no model.`);
  return ((await readerOf(file)) ?? readLlama2c)(file);
}

/** Whether a file is of a format for models by its first bytes; those of llama2.c say nothing. */
export async function isModel(file: ByteSource): Promise<boolean> {
  return file.size >= START_BYTES && (await readerOf(file)) !== undefined;
}

async function readerOf(file: ByteSource): Promise<((file: ByteSource) => Promise<Checkpoint>) | undefined> {
  const start = await file.read(0, START_BYTES);
  if (new TextDecoder("latin1").decode(start).startsWith(ggufMagic)) return readGguf;
  return looksLikeSafetensors(start) ? readTrained : undefined;
}
