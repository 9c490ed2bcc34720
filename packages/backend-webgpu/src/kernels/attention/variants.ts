import type { FloatType } from "@backplane/core";
import { type DeviceFeatures, defaultLimits } from "../../device/index.js";
import { count, flag, floatType, type ShapeFields } from "../fields.js";
import { BUSY_WORKGROUPS, isNarrow, takesLargeTexts } from "../machine.js";
import { SIDE, SUBGROUP } from "../tiles/index.js";
import type { Variant } from "../variant.js";
import { type DecodeTile, decodeBytes } from "./decode.wgsl.js";
import { THIN_ROWS, thinColumns } from "./few-rows.wgsl.js";
import {
  type AttentionMatrixTile,
  attentionMatrixBytes,
  attentionMatrixName,
  attentionMatrixThreads,
} from "./matrix-tile.js";
import { type AttentionSplitTile, attentionSplitBytes } from "./split/split-tile.js";
import { type ThinTile, thinBytes } from "./thin.wgsl.js";
import { type AttentionTile, attentionBytes, attentionThreads, attentionTileName } from "./tile.js";

/** The facts on which a choice between variants may be based. */
export interface AttentionShape {
  readonly dtype: FloatType;
  /** Key heads of the whole batch. */
  readonly matrices: number;
  /** Queries of all heads that share a key head. */
  readonly rows: number;
  readonly keyLength: number;
  readonly headSize: number;
  /** Rows are whole multiples of eight elements, and all operands are aligned to so many, or 16 bytes. */
  readonly wholeEights: boolean;
  /** There is no mask, no window, and logarithms of sums are not stored. */
  readonly bare: boolean;
}

export const attentionFields: ShapeFields<AttentionShape> = {
  ...{
    dtype: floatType,
    matrices: count,
    rows: count,
    keyLength: count,
    headSize: count,
    wholeEights: flag,
    bare: flag,
  },
};

export interface TiledVariant extends Variant<AttentionShape> {
  readonly kind: "tiled";
  readonly tile: AttentionTile;
}

export interface ThinVariant extends Variant<AttentionShape> {
  readonly kind: "thin";
  readonly tile: ThinTile;
}

export interface DecodeVariant extends Variant<AttentionShape> {
  readonly kind: "decode";
  readonly tile: DecodeTile;
}

export interface MatrixVariant extends Variant<AttentionShape> {
  readonly kind: "matrices";
  readonly tile: AttentionMatrixTile;
  /** The numbers of head elements that it is generated for, in ascending order. */
  readonly columns: readonly number[];
}

/** f32 through f16; only with the option `f32Products`. */
export interface SplitVariant extends Variant<AttentionShape> {
  readonly kind: "split";
  readonly tile: AttentionSplitTile;
  /** The number of head elements that it is generated for; it takes heads from half as many on. */
  readonly columns: number;
  /** For what is left to the plain kernel: its rows divide those of `tile`. */
  readonly plain: AttentionTile;
}

export type AttentionVariant = SplitVariant | MatrixVariant | TiledVariant | ThinVariant | DecodeVariant;

/** Only on devices whose subgroups all have the size that the kernel is written for. */
function matrices(
  tile: AttentionMatrixTile,
  columns: readonly number[],
  prefers: MatrixVariant["prefers"],
): MatrixVariant {
  const largest = columns.at(-1)!;
  return {
    kind: "matrices",
    name: `matrices_${attentionMatrixName(tile)}`,
    ...{ tile, columns },
    requires: ({ limits, subgroupMatrices, subgroupMinSize, subgroupMaxSize }) =>
      subgroupMatrices.includes(`${SIDE}x${SIDE}x${SIDE}`) &&
      subgroupMinSize === SUBGROUP &&
      subgroupMaxSize === SUBGROUP &&
      limits.maxComputeInvocationsPerWorkgroup >= attentionMatrixThreads(tile) &&
      limits.maxComputeWorkgroupStorageSize >= attentionMatrixBytes(tile, largest),
    fits: (shape) => shape.dtype === "f16" && shape.wholeEights && shape.headSize <= largest,
    prefers,
  };
}

function split(
  tile: AttentionSplitTile,
  columns: number,
  plain: AttentionTile,
  prefers: SplitVariant["prefers"],
): SplitVariant {
  return {
    kind: "split",
    name: `split_${attentionMatrixName(tile)}`,
    ...{ tile, columns, plain },
    requires: ({ limits, splitsProducts, subgroupMatrices, subgroupMinSize, subgroupMaxSize }) =>
      splitsProducts === true &&
      subgroupMatrices.includes(`${SIDE}x${SIDE}x${SIDE}`) &&
      subgroupMinSize === SUBGROUP &&
      subgroupMaxSize === SUBGROUP &&
      limits.maxComputeInvocationsPerWorkgroup >=
        Math.max(attentionMatrixThreads(tile), attentionThreads(plain)) &&
      limits.maxComputeWorkgroupStorageSize >=
        Math.max(attentionSplitBytes(tile, columns), attentionBytes(plain, columns)),
    fits: (shape) =>
      shape.dtype === "f32" &&
      shape.wholeEights &&
      shape.bare &&
      shape.keyLength > 0 &&
      2 * shape.headSize >= columns &&
      shape.headSize <= columns,
    prefers,
  };
}

/** Head elements of the output that one workgroup may compute; larger heads take several workgroups. */
export function outputColumns(tile: AttentionTile): readonly number[] {
  return [32, 64, 128].filter((columns) => columns % (4 * tile.across) === 0);
}

function tiled(tile: AttentionTile, prefers: TiledVariant["prefers"]): TiledVariant {
  return {
    kind: "tiled",
    name: `tiled_${attentionTileName(tile)}`,
    tile,
    requires: ({ limits }: DeviceFeatures) =>
      limits.maxComputeInvocationsPerWorkgroup >= attentionThreads(tile) &&
      limits.maxComputeWorkgroupStorageSize >=
        Math.max(...outputColumns(tile).map((columns) => attentionBytes(tile, columns))),
    fits: () => true,
    prefers,
  };
}

/** With this many, parts of the results take no more memory than the keys. */
const MOST_THIN_ROWS = 64;

/** The largest number of workgroups in each direction of a dispatch. */
const MOST_WORKGROUPS = defaultLimits.maxComputeWorkgroupsPerDimension;

/** Few enough `rows` for one or two workgroups, so that reading keys and values takes the time. */
const hasFewRows: ThinVariant["prefers"] = ({ rows }, features) =>
  rows <= 2 * THIN_ROWS && !isNarrow(features);

function fitsFewRows({ matrices, rows, headSize, wholeEights }: AttentionShape): boolean {
  return (
    wholeEights && headSize <= thinColumns.at(-1)! && rows <= MOST_THIN_ROWS && matrices <= MOST_WORKGROUPS
  );
}

function thin(tile: ThinTile): ThinVariant {
  return {
    kind: "thin",
    name: `thin_${THIN_ROWS}`,
    tile,
    requires: ({ limits }) =>
      limits.maxComputeInvocationsPerWorkgroup >= tile.threads &&
      limits.maxComputeWorkgroupStorageSize >= thinBytes(tile),
    fits: (shape) => fitsFewRows(shape) && shape.keyLength / tile.keys <= MOST_WORKGROUPS,
    prefers: (shape, features) => hasFewRows(shape, features) && shape.keyLength >= tile.keys,
  };
}

/** Head elements up to which `decode` is preferred: longer heads of f32 would take too many registers. */
const longestDecoded: Readonly<Record<FloatType, number>> = { f32: 128, f16: Number.POSITIVE_INFINITY };

/** Keys from which on two workgroups for the rows of a head take less time than one of a tile. */
const TWICE_READ = 64;

/**
 * On an NVIDIA H200, 8 key heads of 16,384 keys and 128 elements take 28.1 us instead of 32.2 with `thin`,
 * and 43.0 instead of 44.3 in f32; 480 key heads of 1,024 keys take 75 instead of 105. Longer heads of f32
 * would take too many registers.
 */
function decode(tile: DecodeTile): DecodeVariant {
  return {
    kind: "decode",
    name: `decode_${THIN_ROWS}`,
    tile,
    requires: ({ limits, subgroups, subgroupIds = false, subgroupMinSize }) =>
      subgroups &&
      subgroupIds &&
      subgroupMinSize >= 2 * tile.lanes &&
      limits.maxComputeInvocationsPerWorkgroup >= tile.threads &&
      limits.maxComputeWorkgroupStorageSize >= decodeBytes(tile),
    fits: fitsFewRows,
    prefers: (shape, features) =>
      hasFewRows(shape, features) &&
      shape.headSize <= longestDecoded[shape.dtype] &&
      (shape.rows <= THIN_ROWS || shape.keyLength >= TWICE_READ),
  };
}

/** Returns the workgroups of a tile for a shape, if they compute whole heads. */
export function tileCount(shape: AttentionShape, tile: { readonly queries: number }): number {
  return Math.ceil(shape.rows / tile.queries) * shape.matrices;
}

const small: AttentionTile = {
  ...{ queries: 16, keys: 32, threadRows: 4, across: 8 },
  ...{ depth: 16, valueDepth: 16, unroll: 4 },
};
const medium: AttentionTile = {
  ...{ queries: 64, keys: 128, threadRows: 8, across: 16 },
  ...{ depth: 8, valueDepth: 8, unroll: 8 },
};
const large: AttentionTile = { ...medium, queries: 128, depth: 16, valueDepth: 16 };
/** On an NVIDIA H100, 64 heads of 64 elements and length 2048: 34.0 TFLOP/s instead of 32.1; of 128 elements 37.3 instead of 37.6. */
const turning: AttentionTile = { ...large, valueDepth: 32, turns: true };
const isLarge = (shape: AttentionShape) => tileCount(shape, large) >= BUSY_WORKGROUPS / 2 - 4;

/** Too many rows for the kernels for few rows. */
const manyRows: MatrixVariant["prefers"] = (shape) => shape.rows > small.queries;

const short: AttentionMatrixTile = { queries: 64, keys: 32, subgroups: 4, across: 1, own: "all" };
const tall: AttentionMatrixTile = { queries: 128, keys: 32, subgroups: 4, across: 1, own: "none" };
const teams: AttentionMatrixTile = { queries: 256, keys: 32, subgroups: 16, across: 2, own: "values" };
const wide: AttentionMatrixTile = { queries: 128, keys: 32, subgroups: 8, across: 2, own: "values" };

/**
 * With matrix units. On an NVIDIA H100, 64 heads of length 2048: `teams` reaches 203 TFLOP/s with heads of 64 elements (`tall`
 * 178, `short` 142), and `wide` 220 with 128; `tall` takes what would leave rows of the larger tile empty. On an H200, 16 heads
 * of 64 elements took 168 us with `tall` and 121 with `short`; 8 heads of 128 and length 1024 took 41 us with `short` and 51 with
 * eight subgroups of their own rows, at length 2048 124 and 90.
 */
export const matrixVariants: readonly MatrixVariant[] = [
  matrices(short, [64, 128], (shape) => {
    const enough = shape.headSize <= 64 ? 4 * BUSY_WORKGROUPS : BUSY_WORKGROUPS / 2;
    return shape.rows > small.queries && tileCount(shape, short) < enough;
  }),
  matrices(teams, [64], (shape) => {
    const rows = ({ queries }: AttentionMatrixTile) => queries * Math.ceil(shape.rows / queries);
    return shape.rows > small.queries && rows(teams) <= 1.1 * rows(tall);
  }),
  matrices(tall, [64], manyRows),
  matrices(wide, [64, 128], manyRows),
];

/** Tiles of 128 rows times keys times head elements, from which on the passes before the product pay. */
const SPLIT_WORK = 2 ** 25;

/**
 * On an NVIDIA H100, 64 heads of length 1024 and 64 elements take 0.76 of the plain kernel's time (causal 0.88), 8 of length 2048 and 128
 * 0.58 (0.95). Half as much work pays without a causal mask only: 8 heads of length 2048 and 64 elements take 0.77 (1.32).
 */
const manyScores: SplitVariant["prefers"] = (shape) =>
  Math.min(shape.rows, shape.keyLength) >= 1024 &&
  tileCount(shape, wide) >= BUSY_WORKGROUPS / 2 - 4 &&
  tileCount(shape, wide) * shape.keyLength * shape.headSize >= SPLIT_WORK;

/** In f32 on matrix units. Heads of 128 elements fill the registers of a subgroup with 16 rows. */
export const splitVariants: readonly SplitVariant[] = [
  split({ ...wide, own: "values" }, 64, large, manyScores),
  split({ queries: 128, keys: 32, subgroups: 8, across: 1, own: "none" }, 128, large, manyScores),
];

/** Barriers take the most time on an emulated GPU: so more is staged at a time, for as few invocations. */
const deep: AttentionTile = { ...small, depth: 32, valueDepth: 32 };
const deeper: AttentionTile = { ...deep, queries: 32, threadRows: 8 };

/** Every kernel for attention. The last row takes the shapes that no other prefers. */
export const attentionVariants: readonly AttentionVariant[] = [
  decode({ threads: 128, lanes: 16, ahead: 4, joined: 2, busy: 2 * BUSY_WORKGROUPS }),
  thin({ threads: 128, keys: 128, lanes: 4, ahead: 8 }),
  ...splitVariants,
  ...matrixVariants,
  tiled(deeper, (shape, features) => takesLargeTexts(features) && shape.rows > small.queries),
  tiled(deep, (_, features) => isNarrow(features)),
  tiled(small, (shape, features) => shape.rows <= small.queries || isNarrow(features)),
  tiled(turning, (shape) => shape.headSize <= 64 && isLarge(shape)),
  tiled(large, isLarge),
  tiled(medium, () => true),
];
