import { type FunctionBuilder, i32, type Local } from "../../wasm/index.js";

/** What kernels must know of a division into slabs; see `planSlabs`. */
export const slabTypes = {
  outer: "i32",
  length: "i32",
  inner: "i32",
  /** Rows, or slabs of lines, of a chunk. */
  perChunk: "i32",
  /** Panels of columns, and the columns of one. */
  panels: "i32",
  panelWidth: "i32",
  /** Parts of the axis, and the elements of one. */
  pieces: "i32",
  pieceLength: "i32",
} as const;

type SlabLocals = Readonly<Record<keyof typeof slabTypes, Local<"i32">>>;

/** The work of a chunk: rows (or slabs) [row, rowEnd), `count` elements along the axis from `begin`, and a panel. */
export function slabWork(
  f: FunctionBuilder,
  p: SlabLocals,
  chunk: Local<"i32">,
): Readonly<Record<"row" | "rowEnd" | "piece" | "begin" | "count" | "column" | "columns", Local<"i32">>> {
  const panel = f.let(i32.remU(chunk, p.panels));
  const rest = f.let(i32.divU(chunk, p.panels));
  const piece = f.let(i32.remU(rest, p.pieces));
  const row = f.let(i32.mul(i32.divU(rest, p.pieces), p.perChunk));
  const begin = f.let(i32.mul(piece, p.pieceLength));
  const column = f.let(i32.mul(panel, p.panelWidth));
  return {
    ...{ row, piece, begin, column },
    rowEnd: f.let(i32.add(row, i32.minU(i32.sub(p.outer, row), p.perChunk))),
    count: f.let(i32.minU(i32.sub(p.length, begin), p.pieceLength)),
    columns: f.let(i32.minU(i32.sub(p.inner, column), p.panelWidth)),
  };
}
