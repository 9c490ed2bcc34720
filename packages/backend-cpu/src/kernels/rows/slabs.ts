/** The most columns of a panel; a multiple of 4. */
export const panelColumns = 512;

/** The number of elements that a chunk should read at least, roughly. */
const leastElements = 1 << 14;

/** With at least this many chunks, cutting the axis into pieces gains nothing. */
const enoughPieces = 64;

/** How the elements (o, j, i), at (o * length + j) * inner + i, are divided up, to be seen in the order of j. */
export interface SlabsPlan {
  readonly form: "rows" | "columns";
  readonly panels: number;
  readonly panelWidth: number;
  readonly perChunk: number;
  readonly pieces: number;
  readonly pieceLength: number;
}

export function planSlabs({
  outer,
  length,
  inner,
}: Readonly<Record<"outer" | "length" | "inner", number>>): SlabsPlan {
  const panelWidth = Math.min(inner, panelColumns);
  const panels = Math.ceil(inner / panelWidth);
  const each = length * panelWidth;
  const wanted = Math.ceil(enoughPieces / (outer * panels));
  const pieceLength = Math.max(Math.ceil(leastElements / panelWidth), Math.ceil(length / wanted));
  const pieces = wanted > 1 && each > 2 * leastElements ? Math.ceil(length / pieceLength) : 1;
  const elements = Math.max(leastElements, Math.floor((outer * each * panels) / enoughPieces));
  return {
    form: inner === 1 ? "rows" : "columns",
    panels,
    panelWidth,
    pieces,
    perChunk: pieces > 1 ? 1 : Math.min(outer, Math.max(1, Math.floor(elements / each))),
    pieceLength: pieces > 1 ? pieceLength : length,
  };
}
