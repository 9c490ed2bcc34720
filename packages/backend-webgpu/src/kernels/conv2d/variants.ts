import { type ProductTile, tileBytes, tileName, tileThreads } from "../gemm/tile.js";
import { BUSY_WORKGROUPS } from "../gemm/variants.js";
import type { Variant } from "../variant.js";
import { type DirectTile, directName } from "./conv2d.wgsl.js";

/** What a choice between variants may look at. */
export interface ConvShape {
  readonly dtype: "f32" | "f16";
  readonly batch: number;
  readonly groups: number;
  /** Output channels of one group. */
  readonly groupOutputs: number;
  /** Terms of the sum for one output element: 0 where there are no input channels. */
  readonly taps: number;
  /** Output pixels of the whole batch. */
  readonly pixels: number;
  /** A 1 x 1 filter with stride 1, no padding, one group and no bias: a product of matrices. */
  readonly pointwise: boolean;
}

export type ConvVariant =
  | (Variant<ConvShape> & { readonly kind: "gemm" })
  | (Variant<ConvShape> & { readonly kind: "implicit"; readonly tile: ProductTile })
  | (Variant<ConvShape> & { readonly kind: "direct"; readonly tile: DirectTile });

/** Groups with fewer output channels would leave most rows of a tile empty. */
export const FEW_OUTPUTS = 8;

export function convTileCount(shape: ConvShape, tile: ProductTile): number {
  return Math.ceil(shape.groupOutputs / tile.rows) * Math.ceil(shape.pixels / tile.columns) * shape.groups;
}

function implicit(tile: ProductTile, prefers: ConvVariant["prefers"]): ConvVariant {
  return {
    kind: "implicit",
    name: `implicit_${tileName(tile)}`,
    tile,
    requires: ({ limits }) =>
      limits.maxComputeInvocationsPerWorkgroup >= tileThreads(tile).total &&
      limits.maxComputeWorkgroupStorageSize >= tileBytes(tile),
    fits: (shape) => shape.taps > 0,
    prefers,
  };
}

function direct(tile: DirectTile, prefers: ConvVariant["prefers"]): ConvVariant {
  return {
    kind: "direct",
    name: `direct_${directName(tile)}`,
    tile,
    requires: ({ limits }) => limits.maxComputeInvocationsPerWorkgroup >= tile.lanes,
    fits: () => true,
    prefers,
  };
}

const large: ProductTile = {
  ...{ rows: 64, columns: 64, depth: 16 },
  ...{ threadRows: 8, threadColumns: 8, unroll: 8 },
};
const small: ProductTile = {
  ...{ rows: 32, columns: 32, depth: 16 },
  ...{ threadRows: 4, threadColumns: 4, unroll: 4 },
};

/** Every kernel for conv2d. The last row takes what no other prefers. */
export const convVariants: readonly ConvVariant[] = [
  {
    kind: "gemm",
    name: "gemm",
    requires: () => true,
    fits: (shape) => shape.pointwise,
    prefers: () => true,
  },
  implicit(
    large,
    (shape) => shape.groupOutputs > small.rows && convTileCount(shape, large) >= BUSY_WORKGROUPS / 2,
  ),
  implicit(small, (shape) => shape.groupOutputs >= FEW_OUTPUTS),
  direct({ channels: 1, pixels: 1, lanes: 64 }, (shape) => shape.groupOutputs === 1),
  direct({ channels: 4, pixels: 2, lanes: 64 }, () => true),
];
