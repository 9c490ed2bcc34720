import type { FloatType } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import { type AttentionTile, attentionBytes, attentionThreads, outputColumns } from "../attention/index.js";
import { count, floatType, type ShapeFields } from "../fields.js";
import { BUSY_WORKGROUPS, isNarrow, takesLargeTexts } from "../machine.js";
import type { Variant } from "../variant.js";
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
}

export const gradientFields: ShapeFields<GradientShape> = {
  ...{ dtype: floatType, matrices: count, rows: count, keyLength: count, headSize: count },
};

export interface GradientVariant extends Variant<GradientShape> {
  readonly tile: AttentionTile;
}

function tiled(tile: AttentionTile, prefers: GradientVariant["prefers"]): GradientVariant {
  return {
    name: `tiled_${gradientTileName(tile)}`,
    tile,
    requires: ({ limits }: DeviceFeatures) =>
      limits.maxComputeInvocationsPerWorkgroup >= attentionThreads(tile) &&
      limits.maxComputeWorkgroupStorageSize >=
        Math.max(...outputColumns(tile).map((columns) => attentionBytes(tile, columns))),
    fits: () => true,
    prefers,
  };
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

/** Barriers take the most time on an emulated GPU: so more is staged at a time, for as few invocations. */
const emulated: AttentionTile = { ...small, depth: 32, valueDepth: 32 };

/** Workgroups of the pass with fewer of them. */
function groups({ matrices, rows, keyLength }: GradientShape, tile: AttentionTile): number {
  return Math.ceil(Math.min(rows, keyLength) / tile.queries) * matrices;
}

const isLarge: GradientVariant["prefers"] = (shape, features) =>
  !isNarrow(features) && groups(shape, medium) >= BUSY_WORKGROUPS / 4;

/** Every kernel for the gradient. The last row takes the shapes that no other prefers. */
export const gradientVariants: readonly GradientVariant[] = [
  tiled(deep, isLarge),
  tiled(medium, isLarge),
  tiled(emulated, (_, features) => takesLargeTexts(features)),
  tiled(small, () => true),
];
