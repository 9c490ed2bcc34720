import { type ProductTile, stagedPitch, tileThreads } from "../gemm/tile.js";

/**
 * A workgroup handles `queries` rows of one batch and key head and walks through the keys, `keys` at a
 * time. Each of its invocations keeps 4 rows; `across` of them share those rows. All are multiples of 4.
 */
export interface AttentionTile {
  readonly queries: number;
  readonly keys: number;
  /** Invocations that share a row, each with keys / across scores of it. */
  readonly across: number;
  /** Head elements staged at a time for the scores. */
  readonly depth: number;
  /** Keys staged at a time for the weighted sum of values; divides `keys`. */
  readonly valueDepth: number;
}

/** The product that gives the scores: queries x keys, summed over the head. */
export function scoreTile(tile: AttentionTile): ProductTile {
  const { queries, keys, depth, across } = tile;
  return { rows: queries, columns: keys, depth, threadRows: 4, threadColumns: keys / across, unroll: 4 };
}

/** The product that gives the output: queries x `columns` head elements, summed over the keys. */
export function valueTile(tile: AttentionTile, columns: number): ProductTile {
  const { queries, valueDepth, across } = tile;
  return {
    ...{ rows: queries, columns, depth: valueDepth },
    ...{ threadRows: 4, threadColumns: columns / across, unroll: 4 },
  };
}

/** Quads of workgroup memory for staging; scores, row statistics and values take turns. */
export function stageQuads(tile: AttentionTile, columns: number): number {
  const scores = tile.depth * (stagedPitch(tile.queries) + stagedPitch(tile.keys));
  const statistics = (tile.across * tile.queries) / 4;
  const values = tile.valueDepth * stagedPitch(columns);
  return Math.max(scores, statistics, values);
}

export function attentionThreads(tile: AttentionTile): number {
  return tileThreads(scoreTile(tile)).total;
}

/** Workgroup memory in bytes. */
export function attentionBytes(tile: AttentionTile, columns: number): number {
  return 16 * (stageQuads(tile, columns) + tile.keys * stagedPitch(tile.queries));
}

/** Such as `64x32`. */
export function attentionTileName(tile: AttentionTile): string {
  return `${tile.queries}x${tile.keys}`;
}
