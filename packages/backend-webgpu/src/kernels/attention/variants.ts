import type { DeviceFeatures } from "../../context.js";
import { isNarrow } from "../gemm/variants.js";
import type { Variant } from "../variant.js";
import { type AttentionTile, attentionBytes, attentionThreads, attentionTileName } from "./tile.js";

/** What a choice between variants may look at. */
export interface AttentionShape {
  readonly dtype: "f32" | "f16";
  /** Key heads of the whole batch. */
  readonly matrices: number;
  /** Queries of all heads that share a key head. */
  readonly rows: number;
  readonly keyLength: number;
  readonly headSize: number;
}

export interface AttentionVariant extends Variant<AttentionShape> {
  readonly tile: AttentionTile;
}

/** Head elements of the output that one workgroup may compute; larger heads take several workgroups. */
export const outputColumns: readonly number[] = [32, 64, 128];

function tiled(tile: AttentionTile, prefers: AttentionVariant["prefers"]): AttentionVariant {
  return {
    name: `tiled_${attentionTileName(tile)}`,
    tile,
    requires: ({ limits }: DeviceFeatures) =>
      limits.maxComputeInvocationsPerWorkgroup >= attentionThreads(tile) &&
      limits.maxComputeWorkgroupStorageSize >=
        Math.max(...outputColumns.map((columns) => attentionBytes(tile, columns))),
    fits: () => true,
    prefers,
  };
}

const long: AttentionTile = { queries: 64, keys: 32, across: 8, depth: 16, valueDepth: 8 };
const short: AttentionTile = { queries: 16, keys: 32, across: 8, depth: 16, valueDepth: 16 };

/** Every kernel for attention. The last row takes what no other prefers. */
export const attentionVariants: readonly AttentionVariant[] = [
  tiled(short, (shape, features) => shape.rows <= short.queries || isNarrow(features)),
  tiled(long, () => true),
];
