import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, i32, i32x4, type Local, type Value } from "../../wasm/index.js";
import { elementFormats } from "../elements/index.js";

/** Which of four elements are among the next `remaining`. */
export function lanesBelow(f: FunctionBuilder): (remaining: Local<"i32">) => Value<"v128"> {
  const lanes = f.let(i32x4.const(0, 1, 2, 3));
  return (remaining) => i32x4.gtS(i32x4.splat(remaining), lanes);
}

/** Rows in `pieces` pieces of `pieceLength` elements. */
export type PieceLocals = Readonly<Record<"length" | "pieces" | "pieceLength", Local<"i32">>>;

/** The elements of a chunk that is one piece, as byte offset and count, its row, and its place there. */
export function rowPiece(
  f: FunctionBuilder,
  { length, pieces, pieceLength }: PieceLocals,
  chunk: Local<"i32">,
  dtype: FloatType,
): Readonly<Record<"row" | "piece" | "begin" | "offset" | "count", Local<"i32">>> {
  const row = f.let(i32.divU(chunk, pieces));
  const piece = f.let(i32.remU(chunk, pieces));
  const begin = f.let(i32.mul(piece, pieceLength));
  return {
    ...{ row, piece, begin },
    offset: f.let(i32.shl(i32.add(i32.mul(row, length), begin), elementFormats[dtype].shift)),
    count: f.let(i32.minU(i32.sub(length, begin), pieceLength)),
  };
}
