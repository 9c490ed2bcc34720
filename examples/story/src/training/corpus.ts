import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FileError } from "../checkpoint/file.js";

/** Tokens to learn from, and others to see what was learned. */
export interface Corpus {
  readonly training: Int32Array;
  readonly heldOut: Int32Array;
}

/** Tokens that go to one part or the other together; fewer if the text is short. */
const PIECE = 4096;
/** One in so many pieces is held out. */
const HELD_OUT = 10;

/** Folders without texts of our own. */
const skipped = /^(\.|node_modules$|dist)/;

/** All Markdown in a folder and below, in the order of the paths, without tables, which are mostly space. */
function markdownIn(folder: string): Uint8Array {
  const parts: Uint8Array[] = [];
  const entries = readdirSync(folder, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && !skipped.test(entry.name)) parts.push(markdownIn(path));
    else if (entry.isFile() && entry.name.endsWith(".md"))
      parts.push(new TextEncoder().encode(readFileSync(path, "utf8").replaceAll(/^\|.*\n/gm, "")));
  }
  return Buffer.concat(parts);
}

const root = fileURLToPath(new URL("../../../../", import.meta.url));

/**
 * Reads a text file, or the Markdown of this repository. Throws a FileError if it is not there, or too short for texts of
 * `length` tokens.
 */
export function corpusFor(
  path: string | undefined,
  length: number,
  tokensOf: (text: Uint8Array) => Int32Array,
): Corpus {
  const corpus = splitCorpus(tokensOf(path === undefined ? markdownIn(root) : readText(path)));
  const { training, heldOut } = corpus;
  if (Math.min(training.length, heldOut.length) <= length)
    throw new FileError(
      `${path ?? root} has ${training.length + heldOut.length} tokens; needed: more than ${HELD_OUT * (length + 1)}.`,
    );
  return corpus;
}

/** Holds out every tenth piece, so that both parts are of one kind. */
export function splitCorpus(tokens: Int32Array): Corpus {
  const parts: { training: number[]; heldOut: number[] } = { training: [], heldOut: [] };
  const piece = Math.max(1, Math.min(PIECE, Math.floor(tokens.length / HELD_OUT)));
  for (const [i, token] of tokens.entries()) {
    const isHeldOut = Math.floor(i / piece) % HELD_OUT === HELD_OUT - 1;
    parts[isHeldOut ? "heldOut" : "training"].push(token);
  }
  return { training: Int32Array.from(parts.training), heldOut: Int32Array.from(parts.heldOut) };
}

function readText(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new FileError((error as Error).message);
  }
}
