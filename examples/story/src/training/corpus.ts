import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Tokens, as many as the split leaves in each part. */
export interface Corpus {
  readonly training: Uint8Array;
  readonly heldOut: Uint8Array;
}

/** Bytes that go to one part or the other together; fewer if the text is short. */
const PIECE = 4096;
/** One in so many pieces is held out. */
const HELD_OUT = 10;

/** Folders without texts of our own. */
const skipped = /^(\.|node_modules$|dist)/;

/** All Markdown in a folder and below, in the order of the paths. */
export function markdownIn(folder: string): Uint8Array {
  const parts: Buffer[] = [];
  const entries = readdirSync(folder, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && !skipped.test(entry.name)) parts.push(Buffer.from(markdownIn(path)));
    else if (entry.isFile() && entry.name.endsWith(".md")) parts.push(readFileSync(path));
  }
  return Buffer.concat(parts);
}

/** Holds out every tenth piece, so that both parts are of one kind. */
export function splitCorpus(text: Uint8Array): Corpus {
  const training: Uint8Array[] = [];
  const heldOut: Uint8Array[] = [];
  const piece = Math.max(1, Math.min(PIECE, Math.floor(text.length / HELD_OUT)));
  for (let start = 0; start < text.length; start += piece) {
    const part = (start / piece) % HELD_OUT === HELD_OUT - 1 ? heldOut : training;
    part.push(text.subarray(start, start + piece));
  }
  return { training: Buffer.concat(training), heldOut: Buffer.concat(heldOut) };
}
