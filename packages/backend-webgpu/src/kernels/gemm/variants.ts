import type { DeviceFeatures } from "../../context.js";
import type { Variant } from "../variant.js";
import { type DirectTile, directName } from "./direct.wgsl.js";
import type { ThinTile } from "./thin.wgsl.js";
import { type ProductTile, tileBytes, tileName, tileThreads } from "./tile.js";

/** What a choice between variants may look at: sizes and how the operands lie, no buffers. */
export interface GemmShape {
  readonly dtype: "f32" | "f16";
  readonly m: number;
  readonly n: number;
  /** At least 1. */
  readonly k: number;
  readonly batch: number;
  readonly transA: boolean;
  readonly transB: boolean;
  /** Every run of four along the rows of the stored operand is whole and aligned to four elements. */
  readonly vectorA: boolean;
  readonly vectorB: boolean;
}

export interface TiledVariant extends Variant<GemmShape> {
  readonly kind: "tiled";
  readonly tile: ProductTile;
}

export interface ThinVariant extends Variant<GemmShape> {
  readonly kind: "thin";
  readonly tile: ThinTile;
  readonly wide: "a" | "b";
  readonly contiguousDepth: boolean;
}

export interface DirectVariant extends Variant<GemmShape> {
  readonly kind: "direct";
  readonly tile: DirectTile;
}

export type GemmVariant = TiledVariant | ThinVariant | DirectVariant;

/** The most rows or columns that the thin kernels take. */
export const MAXIMUM_VECTORS = 4;

/** Workgroups that keep a large GPU busy (two for each of 132 multiprocessors). */
export const BUSY_WORKGROUPS = 264;

/** True where a GPU is most likely emulated on a CPU: its subgroups are as wide as a SIMD register. */
export function isNarrow(features: DeviceFeatures): boolean {
  return features.subgroupMaxSize > 0 && features.subgroupMaxSize <= 8;
}

function tiled(tile: ProductTile, prefers: TiledVariant["prefers"]): TiledVariant {
  const { total } = tileThreads(tile);
  return {
    kind: "tiled",
    name: `tiled_${tileName(tile)}`,
    tile,
    requires: ({ limits }) =>
      limits.maxComputeInvocationsPerWorkgroup >= total &&
      limits.maxComputeWorkgroupStorageSize >= tileBytes(tile),
    fits: () => true,
    prefers,
  };
}

function thin(wide: "a" | "b", contiguousDepth: boolean, tile: ThinTile): ThinVariant {
  const invocations = tile.span * tile.lanes;
  return {
    kind: "thin",
    name: `thin_${wide}_${contiguousDepth ? "k" : "places"}_${tile.span}x${tile.lanes}`,
    wide,
    contiguousDepth,
    tile,
    requires: ({ limits }) =>
      limits.maxComputeInvocationsPerWorkgroup >= invocations &&
      limits.maxComputeWorkgroupStorageSize >= MAXIMUM_VECTORS * invocations * 16,
    fits: (shape) =>
      (wide === "b" ? shape.m : shape.n) <= MAXIMUM_VECTORS &&
      (wide === "b" ? shape.transB : !shape.transA) === contiguousDepth,
    prefers: (shape) => (wide === "b" ? shape.n >= shape.m : shape.m >= shape.n),
  };
}

/** Where a GPU is emulated, invocations that share nothing are quickest. */
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

/** Workgroups that a tile makes of a shape. */
export function tileCount(shape: GemmShape, tile: ProductTile): number {
  return Math.ceil(shape.m / tile.rows) * Math.ceil(shape.n / tile.columns) * shape.batch;
}

const large: ProductTile = {
  ...{ rows: 64, columns: 64, depth: 16 },
  ...{ threadRows: 8, threadColumns: 8, unroll: 8 },
};
const small: ProductTile = {
  ...{ rows: 32, columns: 32, depth: 16 },
  ...{ threadRows: 4, threadColumns: 4, unroll: 4 },
};

/** Every kernel for gemm and batchedGemm. The last row takes what no other prefers. */
export const gemmVariants: readonly GemmVariant[] = [
  direct({ threadRows: 8, threadColumns: 2, lanes: 8 }, (shape) => shape.n <= 32),
  direct({ threadRows: 8, threadColumns: 8, lanes: 8 }, () => true),
  thin("b", true, { span: 4, lanes: 64 }),
  thin("b", false, { span: 16, lanes: 16 }),
  thin("a", true, { span: 4, lanes: 64 }),
  thin("a", false, { span: 16, lanes: 16 }),
  tiled(large, (shape) => tileCount(shape, large) >= BUSY_WORKGROUPS / 2),
  tiled(small, () => true),
];
