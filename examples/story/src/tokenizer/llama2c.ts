import { FileError } from "../checkpoint/file.js";
import { type Piece, PieceTokenizer } from "./pieces.js";
import { type Tokenizer, textOf } from "./tokenizer.js";

/** Tokens with a meaning of their own: unknown, start of a text, end of a text. */
const START = 1;
const END = 2;

/**
 * Reads `tokenizer.bin` of llama2.c: the length of the longest piece, then for each token its score (f32), the length of
 * its text in bytes (i32) and the text. Tokens whose text is `<0x0A>` or the like stand for that byte.
 */
export function readLlama2cTokenizer(file: Uint8Array, vocabulary: number): Tokenizer {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const pieces: Piece[] = [];
  let offset = 4;
  while (pieces.length < vocabulary) {
    if (offset + 8 > file.length) throw cutOff(pieces.length, vocabulary);
    const score = view.getFloat32(offset, true);
    const length = view.getInt32(offset + 4, true);
    offset += 8;
    if (length < 0 || offset + length > file.length) throw cutOff(pieces.length, vocabulary);
    const text = textOf(file.subarray(offset, offset + length));
    offset += length;
    const byte = /^<0x([0-9A-F]{2})>$/.exec(text)?.[1];
    const isControl = pieces.length <= END;
    const meaning = byte === undefined ? text : Number.parseInt(byte, 16);
    pieces.push({ text: isControl ? undefined : meaning, score });
  }
  if (offset !== file.length)
    throw new FileError(`It has more than the ${vocabulary} tokens of the model: it belongs to another one.`);
  // A start token ends a story: the model was trained on one after the other.
  return new PieceTokenizer(pieces, { start: START, stops: new Set([START, END]), addsSpace: true });
}

function cutOff(found: number, vocabulary: number): FileError {
  return new FileError(
    `It ends after ${found} tokens, and the model has ${vocabulary}: it is cut off, or belongs to another one.`,
  );
}
