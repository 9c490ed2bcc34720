import { createReadStream, createWriteStream } from "node:fs";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, resolve, sep } from "node:path";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

/** Decompresses one brotli file into an executable. */
export async function unpackExecutable(source: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  await pipeline(createReadStream(source), createBrotliDecompress(), createWriteStream(target));
  await chmod(target, 0o755);
}

/** Unpacks a brotli-compressed tar archive (a few megabytes) into a folder. */
export async function unpackArchive(source: string, folder: string): Promise<void> {
  const archive = await buffer(createReadStream(source).pipe(createBrotliDecompress()));
  for (const entry of readTar(archive)) {
    const target = resolve(folder, entry.name);
    if (!target.startsWith(resolve(folder) + sep))
      throw new Error(`${source}: ${entry.name} leaves the folder`);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, entry.content, { mode: entry.mode });
  }
}

interface TarFile {
  readonly name: string;
  readonly mode: number;
  readonly content: Uint8Array;
}

const BLOCK = 512;

/**
 * The regular files of a POSIX tar archive. Folders are implied by the names; links and long-name
 * extensions do not occur in these archives, and meeting one is an error, not a silent omission.
 */
export function* readTar(archive: Buffer): Generator<TarFile> {
  let position = 0;
  while (position + BLOCK <= archive.length) {
    const header = archive.subarray(position, position + BLOCK);
    if (header[0] === 0) return;
    const text = (start: number, length: number): string =>
      header.toString("utf8", start, start + length).split("\0", 1)[0]!;
    const size = Number.parseInt(text(124, 12), 8);
    const type = text(156, 1);
    const prefix = text(345, 155);
    const name = prefix === "" ? text(0, 100) : `${prefix}/${text(0, 100)}`;
    const start = position + BLOCK;
    if (type === "0" || type === "") {
      if (start + size > archive.length) throw new Error(`tar: ${name} is cut short`);
      yield {
        name,
        mode: Number.parseInt(text(100, 8), 8) & 0o777,
        content: archive.subarray(start, start + size),
      };
    } else if (type !== "5") {
      throw new Error(`tar: ${name} has the unexpected entry type "${type}"`);
    }
    position = start + Math.ceil(size / BLOCK) * BLOCK;
  }
}
