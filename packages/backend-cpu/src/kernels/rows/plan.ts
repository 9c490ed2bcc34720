/** Elements that stay in the second-level cache with their results: what fits is read from memory once. */
export const cachedElements: number = 1 << 15;

/** The fewest and the most elements of a chunk, roughly. */
export const chunkElements: { readonly least: number; readonly most: number } = {
  least: 1 << 13,
  most: 1 << 17,
};

/** With at least this many chunks, more of them gain nothing. */
export const enoughChunks = 64;

/** Elements that are read twice while they are in the cache. */
export const blockElements: number = 1 << 14;

/** How rows are divided up; a function of the problem alone, so that results always repeat. */
export interface RowsPlan {
  /** `whole`: rows that the cache holds. `pieces`: others, seen twice. */
  readonly form: "whole" | "pieces";
  /** Rows, if they are whole. */
  readonly perChunk: number;
  readonly pieces: number;
  /** Elements of a piece, a multiple of 4 if there are several. */
  readonly pieceLength: number;
}

/** For `rows` rows of `length` elements each, one after the other. */
export function planRows(rows: number, length: number): RowsPlan {
  const isWhole = length <= cachedElements;
  const { least, most } = chunkElements;
  const elements = Math.min(Math.max((rows * length) / enoughChunks, least), most);
  const wanted = Math.ceil(enoughChunks / rows);
  const pieceLength = Math.max(4 * Math.ceil(length / wanted / 4), blockElements);
  const pieces = isWhole ? 1 : Math.ceil(length / pieceLength);
  return {
    form: isWhole ? "whole" : "pieces",
    perChunk: Math.max(1, Math.floor(elements / length)),
    pieces,
    pieceLength: pieces === 1 ? length : pieceLength,
  };
}
