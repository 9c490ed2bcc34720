import { dtypeBytes, type FloatType } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import { type AttentionTile, attentionBytes, attentionThreads, outputColumns } from "../attention/index.js";
import { count, flag, floatType, type ShapeFields } from "../fields.js";
import { BUSY_WORKGROUPS, isNarrow, takesLargeTexts } from "../machine.js";
import { scratchBytes } from "../segments/index.js";
import { type ProductTile, SIDE, SUBGROUP, tileBytes, tileThreads } from "../tiles/index.js";
import type { Variant } from "../variant.js";
import {
  type GradientMatrixTile,
  gradientMatrixBytes,
  gradientMatrixName,
  gradientMatrixThreads,
} from "./matrix-tile.js";
import type { Side } from "./sides.wgsl.js";
import { gradientTileName } from "./tile.js";

/** The facts on which a choice between variants may be based. */
export interface GradientShape {
  readonly dtype: FloatType;
  /** Key heads of the whole batch. */
  readonly matrices: number;
  /** Queries of all heads that share a key head. */
  readonly rows: number;
  readonly keyLength: number;
  readonly headSize: number;
  /** Rows are whole multiples of eight elements, and all operands are aligned to so many, or 16 bytes. */
  readonly wholeEights: boolean;
}

export const gradientFields: ShapeFields<GradientShape> = {
  ...{ dtype: floatType, matrices: count, rows: count, keyLength: count, headSize: count, wholeEights: flag },
};

export interface GradientTiledVariant extends Variant<GradientShape> {
  readonly kind: "tiled";
  readonly tile: AttentionTile;
  /** The pass for keys leaves S in memory, and that for queries is a product with tiles of these, by ascending columns. */
  readonly kept: readonly ProductTile[] | undefined;
}

export interface GradientMatrixVariant extends Variant<GradientShape> {
  readonly kind: "matrices";
  readonly tiles: Readonly<Record<Side, GradientMatrixTile>>;
  /** The numbers of head elements that it is generated for, in ascending order. */
  readonly columns: readonly number[];
}

export type GradientVariant = GradientTiledVariant | GradientMatrixVariant;

type Prefers = GradientVariant["prefers"];

/** Only on devices whose subgroups all have the size that the kernel is written for. */
function matrices(
  tiles: GradientMatrixVariant["tiles"],
  columns: readonly number[],
  prefers: Prefers,
): GradientMatrixVariant {
  const largest = columns.at(-1)!;
  const both = [tiles.keys, tiles.queries];
  return {
    kind: "matrices",
    name: `matrices_${both.map(gradientMatrixName).join("_")}`,
    ...{ tiles, columns },
    requires: ({ limits, subgroupMatrices, subgroupMinSize, subgroupMaxSize }) =>
      subgroupMatrices.includes(`${SIDE}x${SIDE}x${SIDE}`) &&
      subgroupMinSize === SUBGROUP &&
      subgroupMaxSize === SUBGROUP &&
      both.every(
        (tile) =>
          limits.maxComputeInvocationsPerWorkgroup >= gradientMatrixThreads(tile) &&
          limits.maxComputeWorkgroupStorageSize >= gradientMatrixBytes(tile, largest),
      ),
    fits: (shape) => shape.dtype === "f16" && shape.wholeEights && shape.headSize <= largest,
    prefers,
  };
}

function tiled(tile: AttentionTile, prefers: Prefers, kept?: readonly ProductTile[]): GradientTiledVariant {
  const bytes = [
    ...outputColumns(tile).map((columns) => attentionBytes(tile, columns)),
    ...(kept ?? []).map(tileBytes),
  ];
  const threads = [attentionThreads(tile), ...(kept ?? []).map((product) => tileThreads(product).total)];
  return {
    kind: "tiled",
    name: `tiled_${gradientTileName(tile)}${kept === undefined ? "" : "_kept"}`,
    ...{ tile, kept },
    requires: ({ limits }: DeviceFeatures) =>
      limits.maxComputeInvocationsPerWorkgroup >= Math.max(...threads) &&
      limits.maxComputeWorkgroupStorageSize >= Math.max(...bytes),
    fits: () => true,
    prefers,
  };
}

/** Keys of S that is kept, for each query: whole tiles. */
export function keptKeys({ keyLength }: GradientShape, { tile }: GradientTiledVariant): number {
  return Math.ceil(keyLength / tile.queries) * tile.queries;
}

/** As tiles of attention: `queries` own rows, and `keys` rows of the other side at a time. */
const small: AttentionTile = {
  ...{ queries: 16, keys: 32, threadRows: 4, across: 8 },
  ...{ depth: 16, valueDepth: 16, unroll: 4 },
};

/**
 * 128 sums for an invocation if heads have 64 elements: both products, and two results. The baseline tier has the memory
 * for 8 steps at a time.
 */
const medium: AttentionTile = {
  ...{ queries: 64, keys: 64, threadRows: 8, across: 16 },
  ...{ depth: 8, valueDepth: 8, unroll: 8 },
};
const deep: AttentionTile = { ...medium, depth: 16, valueDepth: 16 };

/** On an NVIDIA H100 it takes 0.95 of the time of `deep` with heads of 128 elements, and 1.01 with heads of 64. */
const wide: AttentionTile = { ...deep, queries: 128 };

/** Barriers take the most time on an emulated GPU: so more is staged at a time, for as few invocations. */
const emulated: AttentionTile = { ...small, depth: 32, valueDepth: 32 };

/** With subgroups of 16 rows of keys or queries. */
const pair: GradientMatrixTile = { rows: 32, others: 32, subgroups: 2, panels: 1 };
const four: GradientMatrixTile = { rows: 64, others: 32, subgroups: 4, panels: 1 };
const eight: GradientMatrixTile = { rows: 128, others: 32, subgroups: 8, panels: 2 };
/** With subgroups of 32. */
const tall: GradientMatrixTile = { rows: 128, others: 32, subgroups: 4, panels: 1 };

/** Too many rows to leave most of a tile empty. */
const manyRows: Prefers = ({ rows, keyLength }) => Math.min(rows, keyLength) > small.queries;

/** Workgroups of the pass with fewer of them. */
function groups({ matrices, rows, keyLength }: GradientShape, tile: AttentionTile): number {
  return Math.ceil(Math.min(rows, keyLength) / tile.queries) * matrices;
}

const isLarge: Prefers = (shape, features) =>
  !isNarrow(features) && groups(shape, medium) >= BUSY_WORKGROUPS / 4;

/**
 * Keys of all matrices whose S is kept at a time, at least. Of causal attention the workgroups for the first keys take longest,
 * so that a dispatch needs many others: on an NVIDIA H100, 8 matrices of 2048 keys at a time take 1.4 times as long as computing
 * S twice, and 16 take 0.87 of it.
 */
const LEAST_KEPT = 2 ** 15;

function keepsWell(shape: GradientShape, features: DeviceFeatures, tile: AttentionTile): boolean {
  const keys = Math.ceil(shape.keyLength / tile.queries) * tile.queries;
  const room = Math.floor(scratchBytes(features) / (dtypeBytes.f32 * keys * shape.rows));
  return isLarge(shape, features) && Math.min(shape.matrices, room) * keys >= LEAST_KEPT;
}

/** Of the product of S and the keys. */
const keptTiles: readonly ProductTile[] = [
  { rows: 128, columns: 64, depth: 16, threadRows: 8, threadColumns: 8 },
  { rows: 128, columns: 128, depth: 16, threadRows: 16, threadColumns: 8 },
];

/** Every kernel for the gradient. The last row takes the shapes that no other prefers. */
export const gradientVariants: readonly GradientVariant[] = [
  matrices({ keys: pair, queries: pair }, [64, 128], (shape, features) => {
    return manyRows(shape, features) && groups(shape, wide) < BUSY_WORKGROUPS / 4;
  }),
  matrices({ keys: pair, queries: tall }, [64], manyRows),
  matrices({ keys: eight, queries: four }, [128], manyRows),
  tiled(wide, (shape, features) => shape.headSize > 64 && keepsWell(shape, features, wide), keptTiles),
  tiled(deep, (shape, features) => keepsWell(shape, features, deep), keptTiles),
  tiled(
    wide,
    (shape, features) =>
      shape.headSize > 64 && isLarge(shape, features) && groups(shape, wide) >= BUSY_WORKGROUPS,
  ),
  tiled(deep, isLarge),
  tiled(medium, isLarge),
  tiled(emulated, (_, features) => takesLargeTexts(features)),
  tiled(small, () => true),
];
