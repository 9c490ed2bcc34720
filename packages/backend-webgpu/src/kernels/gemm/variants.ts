import { dtypeBytes, type FloatType } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import { BUSY_WORKGROUPS, isNarrow, MULTIPROCESSORS } from "../machine.js";
import {
  hasRoomForTile,
  type ProductTile,
  productTiles,
  SIDE,
  SUBGROUP,
  stagedBytes,
  tileBytes,
  tileName,
  tileThreads,
} from "../tiles/index.js";
import type { Variant } from "../variant.js";
import { type DirectTile, directName } from "./direct.wgsl.js";
import { type MatrixTile, matrixBytes, matrixThreads, matrixTileName } from "./matrix-tile.js";
import { isQuickest, SHORTEST_PART, SHORTEST_SUM, type TilePace, tileCount } from "./rounds.js";
import { type RowTile, rowBytes, rowName } from "./row.wgsl.js";
import type { GemmShape } from "./shape.js";
import { SHORTEST, splitBytes } from "./split/split-tile.js";
import type { StreamedTile } from "./streamed.wgsl.js";
import { THIN_BYTES, type ThinTile, type ThinVectors } from "./thin.wgsl.js";
import { matrixTime } from "./turned.js";

/** A variant whose workgroups each sum all of k, or a part of it. */
interface PartialVariant extends Variant<GemmShape> {
  /** Workgroups that keep a large GPU busy: long sums are split until there are about as many. */
  readonly busy: number;
}

export interface TiledVariant extends PartialVariant {
  readonly kind: "tiled";
  readonly tile: ProductTile;
}

/** After its operands were brought into one layout and type in scratch; see `inKMajor`. */
export interface PackedVariant extends Variant<GemmShape> {
  readonly kind: "packed";
  readonly tile: ProductTile;
}

export interface StreamedVariant extends PartialVariant {
  readonly kind: "streamed";
  readonly tile: StreamedTile;
}

export interface ThinVariant extends PartialVariant {
  readonly kind: "thin";
  readonly tile: ThinTile;
  readonly wide: "a" | "b";
  readonly contiguousDepth: boolean;
}

/** For one row of A, by rows of B. */
export interface RowVariant extends Variant<GemmShape> {
  readonly kind: "row";
  readonly tile: RowTile;
}

export interface DirectVariant extends Variant<GemmShape> {
  readonly kind: "direct";
  readonly tile: DirectTile;
}

export interface MatrixVariant extends PartialVariant {
  readonly kind: "matrices";
  readonly tile: MatrixTile;
}

/** f32 through f16; only with the option `f32Products`. */
export interface SplitVariant extends Variant<GemmShape> {
  readonly kind: "split";
  readonly tile: MatrixTile;
  /** The tile for the blocks of `tile` that cannot be split; it divides them. */
  readonly plain: ProductTile;
}

export type GemmVariant =
  | SplitVariant
  | MatrixVariant
  | TiledVariant
  | PackedVariant
  | StreamedVariant
  | ThinVariant
  | RowVariant
  | DirectVariant;

/** Invocations of a large GPU that are under way at once (2048 on each of 132 multiprocessors). */
const BUSY_INVOCATIONS = 270_336;

function tiled(
  tile: ProductTile,
  prefers: TiledVariant["prefers"],
  busy: number = BUSY_WORKGROUPS,
): TiledVariant {
  return {
    kind: "tiled",
    name: `tiled_${tileName(tile)}`,
    tile,
    busy,
    requires: (features) => hasRoomForTile(features, tile),
    fits: () => true,
    prefers,
  };
}

/** Returns one of `paces`, preferred if it is the fastest. */
function quickest(tile: ProductTile): TiledVariant {
  const pace = paces.find((one) => one.tile === tile)!;
  return tiled(tile, (shape, features) => isQuickest(paces, pace, shape, features));
}

function packed(tile: ProductTile): PackedVariant {
  const { requires, fits, prefers } = quickest(tile);
  return { kind: "packed", name: `packed_${tileName(tile)}`, ...{ tile, requires, fits, prefers } };
}

/**
 * For rows that one tile holds, with B in whole quads along its rows. `busy` is the number of workgroups that
 * run at a time on an H200, since a few more would take as long again: 16 x 16384 x 16384 took 395 us in 512
 * of them, and 634 in 576. Preferred for sums of at least `depth` in total, over all tiles of columns, unless
 * most of each tile is beyond them: 4,096 products of 32^3 took 157 us with 512 columns, and 24 with 32.
 */
function streamed(tile: StreamedTile, busy: number, depth: number): StreamedVariant {
  return {
    kind: "streamed",
    name: `streamed_${tileName(tile)}`,
    ...{ tile, busy },
    requires: ({ limits }) =>
      limits.maxComputeInvocationsPerWorkgroup >= tileThreads(tile).total &&
      limits.maxComputeWorkgroupStorageSize >= stagedBytes(tile, tile.rows),
    fits: (shape) => !shape.transB && shape.vectorB && shape.k >= tile.window,
    prefers: (shape, features) =>
      !isNarrow(features) &&
      shape.m > tile.rows / 2 &&
      shape.m <= tile.rows &&
      4 * shape.n >= tile.columns &&
      tileCount(shape, tile) * shape.k >= depth,
  };
}

/** Whether each vector of the thin operand lies along k in whole, aligned runs of four. */
export function hasThinVector(shape: GemmShape, wide: "a" | "b"): boolean {
  return wide === "b" ? !shape.transA && shape.vectorA : shape.transB && shape.vectorB;
}

/** Whether a tile for each matrix keeps a large GPU busy: 8,192 products of 16^3 take 20 us so, and 136 by `thin`. */
function isManySmall({ m, n, batch }: GemmShape): boolean {
  return batch >= 6 * MULTIPROCESSORS && Math.min(m, n) > 8 && Math.max(m, n) <= small.rows;
}

/**
 * Whether B is read by quads, sums are too short to be divided, and results so few that tiles of `deep` do not fill a large
 * GPU: they are fastest then, even half empty. On an NVIDIA H100 16 x 512 x 512 takes 15.0 us so, and 28.5 by `thin`; 16 x
 * 4096 x 512 14.3 and 28.6; 32 x 512 x 512 14.4, and 41.7 by `flat`.
 */
function isShort(shape: GemmShape): boolean {
  return shape.vectorB && shape.k < SHORTEST_SUM && tileCount(shape, deep) <= MULTIPROCESSORS;
}

/** For at most `most` vectors. */
function thin(
  wide: "a" | "b",
  contiguousDepth: boolean,
  most: ThinVectors,
  tile: ThinTile,
  suits: (shape: GemmShape) => boolean = () => true,
): ThinVariant {
  const invocations = tile.span * tile.lanes;
  return {
    kind: "thin",
    name: `thin_${wide}_${contiguousDepth ? "k" : "places"}_${tile.span}x${tile.lanes}`,
    ...{ wide, contiguousDepth, tile, busy: Math.ceil(BUSY_INVOCATIONS / invocations) },
    requires: ({ limits }) =>
      limits.maxComputeInvocationsPerWorkgroup >= invocations &&
      limits.maxComputeWorkgroupStorageSize >= THIN_BYTES,
    fits: (shape) => {
      const vectors = wide === "b" ? shape.m : shape.n;
      // Neighbours at different k would each gather many vectors one by one: 4,300 us for 8, instead of 490.
      const gathers = contiguousDepth && !hasThinVector(shape, wide);
      return (
        vectors <= (gathers ? Math.min(most, 4) : most) &&
        (wide === "b" ? shape.transB : !shape.transA) === contiguousDepth
      );
    },
    prefers: (shape) =>
      (wide === "b" ? shape.n >= shape.m : shape.m >= shape.n) && !isManySmall(shape) && suits(shape),
  };
}

/** Whether A and B are whole blocks of 16 bytes along k. */
const wholeBlocks: Readonly<Record<FloatType, (shape: GemmShape) => boolean>> = {
  f32: ({ vectorA, vectorB }) => vectorA && vectorB,
  f16: ({ wholeEights }) => wholeEights,
};

/** Bytes of a row of B that one workgroup takes in hardly more time than its start, whatever the others do. */
const SHORT_ROW_BYTES = 2 ** 15;

/**
 * On an NVIDIA H100 one row by 2048 x 2048 of f16 takes 5.9 us so, and 13.5 by `thin` with what follows it; by 4096 x 28,672
 * 76 and 88. But 128 long rows of f32 take 15.0 and 11.0: there are too few workgroups.
 */
function row(tile: RowTile): RowVariant {
  return {
    kind: "row",
    name: `row_${rowName(tile)}`,
    tile,
    requires: ({ limits }) =>
      limits.maxComputeInvocationsPerWorkgroup >= tile.threads &&
      limits.maxComputeWorkgroupStorageSize >= rowBytes(tile),
    fits: (shape) => shape.m === 1 && !shape.transA && shape.transB && wholeBlocks[shape.dtype](shape),
    prefers: ({ dtype, n, k, batch }, features) =>
      !isNarrow(features) &&
      (k * dtypeBytes[dtype] <= SHORT_ROW_BYTES || Math.ceil(n / tile.columns) * batch >= MULTIPROCESSORS),
  };
}

/** Only on devices whose subgroups all have the size that the kernel is written for. */
function hasMatrices(
  { limits, subgroupMatrices, subgroupMinSize, subgroupMaxSize }: DeviceFeatures,
  tile: MatrixTile,
  bytes: number,
): boolean {
  return (
    subgroupMatrices.includes(`${SIDE}x${SIDE}x${SIDE}`) &&
    subgroupMinSize === SUBGROUP &&
    subgroupMaxSize === SUBGROUP &&
    limits.maxComputeInvocationsPerWorkgroup >= matrixThreads(tile) &&
    limits.maxComputeWorkgroupStorageSize >= bytes
  );
}

/** Whether the computation is so long that copies of A, B and C are a small part of it. */
function paysPacking({ m, n, k }: GemmShape): boolean {
  return Math.min(m, n, k) >= 256;
}

/** `busy`: see `PartialVariant`. Preferred for the shapes that it `suits`, which have tiles enough. */
function matrices(tile: MatrixTile, busy: number, suits: (shape: GemmShape) => boolean): MatrixVariant {
  return {
    kind: "matrices",
    name: `matrices_${matrixTileName(tile)}`,
    tile,
    busy,
    requires: (features) => hasMatrices(features, tile, matrixBytes(tile)),
    fits: ({ dtype }) => dtype === "f16",
    prefers: (shape) => (shape.wholeEights || paysPacking(shape)) && suits(shape),
  };
}

/** Tiles of one round that is nearly full. */
const FULL_ROUND: number = MULTIPROCESSORS - 4;

/**
 * Whether tiles that fill a multiprocessor by themselves pay: there are two rounds of them, or one, nothing is copied before, and they are
 * as full as tiles of half their size. On an NVIDIA H100 2048 x 2560 x 2048 takes 112 us with them and 120 with those, transposed 122 and 131.
 */
function fillsAlone(shape: GemmShape, tile: MatrixTile): boolean {
  const count = tileCount(shape, tile);
  if (count >= BUSY_WORKGROUPS) return true;
  return shape.wholeEights && count >= FULL_ROUND && 2 * count <= tileCount(shape, square);
}

/** Sums that are worth sharing even on an emulated GPU, as there is only one for each row of A. */
const LONG_SUM = 1024;

/** Whether products may be split, in tiles of this size with those of plain products in their place. */
export function canSplit(features: DeviceFeatures, tile: MatrixTile, plain: ProductTile): boolean {
  return (
    features.splitsProducts === true &&
    hasMatrices(features, tile, Math.max(splitBytes(tile), tileBytes(plain)))
  );
}

/**
 * Splitting costs a fixed time and more per number. On an NVIDIA H200 it pays from 128 tiles on (512 x 4096 x
 * 4096: 352 us instead of 425), not with 64 (1024^3: 185 instead of 71).
 */
function split(tile: MatrixTile, plain: ProductTile): SplitVariant {
  return {
    kind: "split",
    name: `split_${matrixTileName(tile)}`,
    ...{ tile, plain },
    requires: (features) => canSplit(features, tile, plain),
    fits: (shape) => shape.dtype === "f32" && shape.k >= SHORTEST,
    prefers: (shape) =>
      Math.min(shape.m, shape.n, shape.k) >= 512 && tileCount(shape, tile) >= BUSY_WORKGROUPS / 2 - 4,
  };
}

/** On an emulated GPU, invocations that share nothing are fastest. */
function direct(tile: DirectTile, prefers: (shape: GemmShape) => boolean): DirectVariant {
  return {
    kind: "direct",
    name: `direct_${directName(tile)}`,
    tile,
    requires: () => true,
    fits: () => true,
    prefers: (shape, features) => isNarrow(features) && prefers(shape),
  };
}

const { huge, large, medium, small, deep } = productTiles;
/** For few rows or few columns: loading both operands then takes about as long as computing. */
const flat: ProductTile = { ...medium, rows: 32, columns: 128 };
const upright: ProductTile = { ...flat, rows: 128, columns: 32 };
/**
 * A subgroup by itself, so that a multiprocessor has eight at a time. 1,024 products of 64^3 take 20 us on an NVIDIA
 * H200, and 26 with `medium`, of which there are six; 600 take 18 and 15, and sides of 96 are no faster either.
 */
const lone: ProductTile = { ...medium, depth: 8, threadRows: 16 };
/** The same for products that are no larger than its tile, for which `small` would take two subgroups. */
const lonelySmall: ProductTile = { ...small, threadRows: 8 };
/**
 * For few rows of the result: the invocations that have the columns of B read each of its rows. With n = k =
 * 16384 on an H200: 8 rows 283 us, 16 rows 311, 32 rows 469 (the thin kernels 360 and 430, `flat` 619). 32
 * rows with one quad of columns for each invocation take 585, and with windows of 4 instead of 8 745.
 */
const eightRows: StreamedTile = {
  ...{ rows: 8, columns: 256, depth: 32, threadRows: 8, threadColumns: 4 },
  window: 8,
};
const sixteenRows: StreamedTile = { ...eightRows, rows: 16, threadRows: 16 };
const thirtyTwoRows: StreamedTile = {
  ...{ rows: 32, columns: 512, depth: 32, threadRows: 16, threadColumns: 8 },
  window: 8,
};

/** For products of split numbers; `depth` counts parts. */
export const splitTile: MatrixTile = {
  ...{ rows: 128, columns: 128, depth: 64, subgroupRows: 64, subgroupColumns: 32 },
};

const wide: MatrixTile = { rows: 128, columns: 256, depth: 32, subgroupRows: 64, subgroupColumns: 64 };
const tall: MatrixTile = { ...wide, rows: 256, columns: 128 };
const square: MatrixTile = { ...wide, rows: 128, columns: 128 };
const low: MatrixTile = { ...square, rows: 64, subgroupRows: 32 };

/** For packed operands; the second has several workgroups on a multiprocessor. */
const widest: ProductTile = { ...huge, depth: 8, buffers: 2 };
const upper: ProductTile = { ...widest, rows: 128, columns: 64, threadRows: 8 };

/**
 * In the order of workgroup memory, see `isQuickest`; the last stands for `small`, too. Of 168 shapes with m
 * and n from 48 to 8192 and k from 48 to 65,536, 159 get a tile within 5% of the best.
 */
const paces: readonly TilePace[] = [
  { tile: widest, together: 1, round: 178, packs: true },
  { tile: huge, together: 1, round: 187, awkwardRound: 220, packs: false },
  { tile: large, together: 2, round: 190, awkwardRound: 200, packs: false },
  { tile: upper, together: 1, round: 50, packs: true },
  { tile: medium, together: 2, round: 61, awkwardRound: 64, packs: false },
  { tile: deep, together: 2, round: 28, packs: false },
];

/** Every kernel for gemm and batchedGemm. The last row takes the shapes that no other prefers. */
export const gemmVariants: readonly GemmVariant[] = [
  direct({ threadRows: 1, threadColumns: 8, lanes: 8 }, ({ m, n }) => m === 1 && n > 1),
  direct({ threadRows: 8, threadColumns: 2, lanes: 8 }, ({ n, k }) => (n === 1 ? k < LONG_SUM : n <= 32)),
  direct({ threadRows: 8, threadColumns: 8, lanes: 8 }, ({ n }) => n > 1),
  streamed(eightRows, 8 * MULTIPROCESSORS, BUSY_WORKGROUPS * SHORTEST_PART),
  streamed(sixteenRows, 6 * MULTIPROCESSORS, BUSY_WORKGROUPS * SHORTEST_PART),
  streamed(thirtyTwoRows, 2 * MULTIPROCESSORS, MULTIPROCESSORS * SHORTEST_PART),
  row({ columns: 4, threads: 256 }),
  thin("b", true, 8, { span: 4, lanes: 32, places: 2 }),
  thin("b", false, 4, { span: 16, lanes: 16, places: 4 }),
  thin("b", false, 16, { span: 32, lanes: 4, places: 4 }, (shape) => shape.m <= 4 || !isShort(shape)),
  thin("b", true, 16, { span: 8, lanes: 16, places: 4 }),
  thin("a", true, 8, { span: 4, lanes: 32, places: 2 }),
  thin("a", true, 16, { span: 8, lanes: 16, places: 4 }),
  thin("a", false, 4, { span: 16, lanes: 16, places: 4 }),
  thin("a", false, 16, { span: 32, lanes: 4, places: 4 }),
  split(splitTile, productTiles.large),
  matrices(
    wide,
    MULTIPROCESSORS,
    (shape) => fillsAlone(shape, wide) && matrixTime(shape, wide) < matrixTime(shape, tall),
  ),
  matrices(tall, MULTIPROCESSORS, (shape) => fillsAlone(shape, tall)),
  matrices(square, BUSY_WORKGROUPS, (shape) => tileCount(shape, square) >= FULL_ROUND),
  matrices(low, BUSY_WORKGROUPS, (shape) => tileCount(shape, low) >= FULL_ROUND),
  tiled(
    flat,
    (shape) => shape.m <= flat.rows && shape.n >= flat.columns && !isShort(shape),
    4 * BUSY_WORKGROUPS,
  ),
  tiled(
    upright,
    (shape) => shape.n <= upright.columns && shape.m >= upright.rows && !isShort(shape),
    4 * BUSY_WORKGROUPS,
  ),
  tiled(
    lone,
    ({ m, n, k, batch }, { subgroupMinSize }) =>
      subgroupMinSize <= SUBGROUP &&
      Math.min(m, n) > small.rows &&
      Math.max(m, n) <= lone.rows &&
      k <= 2 * lone.rows &&
      batch >= 6 * MULTIPROCESSORS,
  ),
  tiled(lonelySmall, (shape, { subgroupMinSize }) => subgroupMinSize <= SUBGROUP && isManySmall(shape)),
  packed(widest),
  quickest(huge),
  quickest(large),
  packed(upper),
  quickest(medium),
  tiled(deep, (shape) => shape.k > small.depth && !isManySmall(shape)),
  tiled(small, () => true),
];

/** Returns the effect of the option `f32Products`, if it was given, for the description of the device. */
export function splittingDetails(features: DeviceFeatures): Readonly<Record<string, string>> {
  if (features.splitsProducts !== true) return {};
  const isPossible = gemmVariants.some(({ kind, requires }) => kind === "split" && requires(features));
  return { f32Products: isPossible ? "split-f16" : "plain (the device lacks matrix units for split-f16)" };
}
