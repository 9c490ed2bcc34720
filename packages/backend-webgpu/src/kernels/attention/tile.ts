import { type ProductTile, stagedPitch, tileThreads } from "../tiles/index.js";

/**
 * A workgroup handles `queries` rows of one batch and key head and walks through the keys, `keys` at a
 * time. `across` of its invocations share rows; each has `threadRows` of them, and a part of the scores
 * and of the output of these rows. All are multiples of 4.
 */
export interface AttentionTile {
  readonly queries: number;
  readonly keys: number;
  readonly threadRows: number;
  /** Invocations that share a row, each with keys / across scores of it; a multiple of `SHARE`. */
  readonly across: number;
  /** Head elements staged at a time for the scores. */
  readonly depth: number;
  /** Keys staged at a time for the weighted sum of values; divides `WEIGHT_KEYS`. */
  readonly valueDepth: number;
  /**
   * Steps written out in the inner loops, since Tint does not unroll. Divides `depth` and `valueDepth`.
   * More is not faster: the text of two products and the weights soon exceeds the instruction cache.
   */
  readonly unroll: number;
  /**
   * Operands of the scores are staged by turns in two halves of workgroup memory, which takes half as many barriers. The first half
   * is then that of the values, and the second that of the weights. Takes as many queries as keys, and no more columns. Default:
   * false.
   */
  readonly turns?: boolean;
}

/** Returns the tile of the product for the scores: queries x keys, summed over the head. */
export function scoreTile(tile: AttentionTile): ProductTile {
  const { queries, keys, depth, across, threadRows } = tile;
  return { rows: queries, columns: keys, depth, threadRows, threadColumns: keys / across };
}

/** Returns the tile of the product for the output: queries x `columns` head elements, summed over the keys. */
export function valueTile(tile: AttentionTile, columns: number): ProductTile {
  const { queries, valueDepth, across, threadRows } = tile;
  return { rows: queries, columns, depth: valueDepth, threadRows, threadColumns: columns / across };
}

/** Neighbouring invocations that put the weights of one quad of keys each into workgroup memory at a time. */
export const SHARE = 8;

/** Keys whose weights are in workgroup memory at a time. */
export const WEIGHT_KEYS: number = 4 * SHARE;

/** Quads of workgroup memory for `unroll` steps; operands of the scores and values take turns. */
export function stagePartQuads(tile: AttentionTile, columns: number): number {
  const { unroll, queries, keys, turns = false } = tile;
  const [left, right, values] = [queries, keys, columns].map(stagedPitch) as [number, number, number];
  if (!turns) return unroll * Math.max(left + right, values);
  if (left !== right || values > left)
    throw new RangeError(`${attentionTileName(tile)}x${columns}: parts of one size do not hold all`);
  return unroll * left;
}

/** Parts of workgroup memory, of `unroll` steps each. */
export function stageParts({ depth, valueDepth, unroll, turns = false }: AttentionTile): number {
  if (!turns) return Math.max(depth, valueDepth) / unroll;
  return (2 * Math.max(2 * depth, valueDepth, WEIGHT_KEYS)) / unroll;
}

/**
 * WGSL expressions of places in workgroup memory, up to the step in a part: those of operands of the scores, of values, of
 * weights, and of what the invocations that share a row exchange.
 */
export interface StagePlaces {
  left(part: string): string;
  right(part: string): string;
  values(part: string): string;
  weights(part: string): string;
  exchanged(part: string): string;
}

const ofOne: StagePlaces = {
  left: (part) => `stage[${part}][`,
  right: (part) => `stage[${part}][RIGHT + `,
  values: (part) => `stage[${part}][`,
  weights: (part) => `weights[${part}][`,
  exchanged: (part) => `weights[${part}][`,
};

/** With `turn`, the first part of the half whose turn it is, and `other`, which is free after the scores. */
const ofTurns: StagePlaces = {
  left: (part) => `stage[turn + (${part}) * 2u][`,
  right: (part) => `stage[turn + (${part}) * 2u + 1u][`,
  values: (part) => `stage[${part}][`,
  weights: (part) => `stage[HALF + ${part}][`,
  exchanged: (part) => `stage[other + ${part}][`,
};

export function stagePlaces({ turns = false }: AttentionTile): StagePlaces {
  return turns ? ofTurns : ofOne;
}

export function attentionThreads(tile: AttentionTile): number {
  return tileThreads(scoreTile(tile)).total;
}

/** Workgroup memory in bytes. */
export function attentionBytes(tile: AttentionTile, columns: number): number {
  const weights = tile.turns ? 0 : WEIGHT_KEYS * stagedPitch(tile.queries);
  return 16 * (stageParts(tile) * stagePartQuads(tile, columns) + weights);
}

/** Such as `64x128`, or `16x32x32` if more than 16 head elements are staged at a time; with `_turns` by turns. */
export function attentionTileName({ queries, keys, depth, turns = false }: AttentionTile): string {
  return `${queries}x${keys}${depth > 16 ? `x${depth}` : ""}${turns ? "_turns" : ""}`;
}
