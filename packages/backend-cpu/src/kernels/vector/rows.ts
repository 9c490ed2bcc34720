import { type FunctionBuilder, i32, type Local, select } from "../../wasm/index.js";
import { elementsPerChunk } from "./chunks.js";

/** How rows of `inner` elements are dealt out: either whole rows are put together in one chunk, or one is split. */
export interface RowChunks {
  readonly rowsPerChunk: number;
  /** Elements of a row that one chunk computes, if there are several chunks to a row. */
  readonly chunkElements: number;
  readonly chunksPerRow: number;
  readonly chunks: number;
}

export function rowChunks(rows: number, inner: number, workers: number): RowChunks {
  const chunkElements = elementsPerChunk(rows * inner, workers);
  const chunksPerRow = Math.ceil(inner / chunkElements);
  const rowsPerChunk = Math.max(1, Math.floor(chunkElements / inner));
  const chunks = Math.ceil(rows / rowsPerChunk) * chunksPerRow;
  return { rowsPerChunk, chunkElements, chunksPerRow, chunks };
}

/** What kernels get of it. */
export type RowParameters = Readonly<
  Record<"inner" | "rows" | "rowsPerChunk" | "chunkElements" | "chunksPerRow", Local<"i32">>
>;

/** The part of a chunk: from `row` up to `rowEnd`, of each `count` elements from `begin` on. */
export interface ChunkRows {
  readonly row: Local<"i32">;
  readonly rowEnd: Local<"i32">;
  readonly begin: Local<"i32">;
  readonly count: Local<"i32">;
}

export function rowsOfChunk(
  f: FunctionBuilder,
  { inner, rows, rowsPerChunk, chunkElements, chunksPerRow }: RowParameters,
  chunk: Local<"i32">,
): ChunkRows {
  const row = f.let(i32.mul(i32.divU(chunk, chunksPerRow), rowsPerChunk));
  const rowEnd = f.let(i32.add(row, i32.minU(i32.sub(rows, row), rowsPerChunk)));
  const begin = f.let(i32.mul(i32.remU(chunk, chunksPerRow), chunkElements));
  const count = f.let(
    select(i32.minU(i32.sub(inner, begin), chunkElements), inner, i32.gtU(chunksPerRow, 1)),
  );
  return { row, rowEnd, begin, count };
}
