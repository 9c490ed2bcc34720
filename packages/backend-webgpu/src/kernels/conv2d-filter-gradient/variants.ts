import type { FloatType } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import { convFields } from "../conv2d/index.js";
import { count, flag, floatType, type ShapeFields } from "../fields.js";
import { isNarrow } from "../machine.js";
import { hasRoomForTile, type ProductTile, productTiles, tileName } from "../tiles/index.js";
import type { Variant } from "../variant.js";
import { DIRECT_LANES } from "./direct.wgsl.js";
import { type StripTile, stripName } from "./strip.wgsl.js";

/** The facts on which a choice between variants may be based. */
export interface FilterGradientShape {
  readonly dtype: FloatType;
  readonly groups: number;
  /** Output channels of one group. */
  readonly groupOutputs: number;
  /** Places of the filter of one output channel. */
  readonly taps: number;
  /** Output pixels of the whole batch: terms of each sum. */
  readonly pixels: number;
  /** Pixel i of the output meets pixel i of the input alone. */
  readonly pointwise: boolean;
  /** One input channel for each group, and a filter without dilation: its side and stride, if square. */
  readonly window: { readonly side: number; readonly stride: number } | undefined;
}

export const filterGradientFields: ShapeFields<FilterGradientShape> = {
  ...{ dtype: floatType, groups: count, groupOutputs: count, taps: count, pixels: count },
  ...{ pointwise: flag, window: convFields.window },
};

export type FilterGradientVariant =
  | (Variant<FilterGradientShape> & { readonly kind: "implicit"; readonly tile: ProductTile })
  | (Variant<FilterGradientShape> & { readonly kind: "strip"; readonly tile: StripTile })
  | (Variant<FilterGradientShape> & { readonly kind: "direct" });

/** Tiles of one group's results, and all groups. */
export function tileCount({ groups, groupOutputs, taps }: FilterGradientShape, tile: ProductTile): number {
  return groups * Math.ceil(groupOutputs / tile.rows) * Math.ceil(taps / tile.columns);
}

const { huge, large, medium, small } = productTiles;

/**
 * Roughly how fast whole tiles are on a large GPU, next to one another. On an NVIDIA H100, 256 results with 2304 places each
 * take 3.22, 3.37 and 3.72 ms, and 1024 with 256 of pointwise filters 1.41, 1.19 and 1.35.
 */
const paces = (pointwise: boolean): readonly (readonly [tile: ProductTile, pace: number])[] => [
  [huge, pointwise ? 0.84 : 1],
  [large, pointwise ? 1 : 0.96],
  [medium, pointwise ? 0.88 : 0.86],
  [small, 0.5],
];

/** Long sums are shared, so that any tile keeps a GPU busy; the best one has the fewest empty places for its pace. */
function isQuickest(tile: ProductTile, shape: FilterGradientShape, features: DeviceFeatures): boolean {
  if (isNarrow(features)) return tile === small;
  let [best, least] = [small, Number.POSITIVE_INFINITY];
  for (const [candidate, pace] of paces(shape.pointwise)) {
    const cost = (tileCount(shape, candidate) * candidate.rows * candidate.columns) / pace;
    if (cost < least && hasRoomForTile(features, candidate)) [best, least] = [candidate, cost];
  }
  return tile === best;
}

function implicit(tile: ProductTile): FilterGradientVariant {
  return {
    kind: "implicit",
    name: `implicit_${tileName(tile)}`,
    tile,
    requires: (features) => hasRoomForTile(features, tile),
    fits: () => true,
    prefers: (shape, features) => isQuickest(tile, shape, features),
  };
}

function strip(tile: StripTile): FilterGradientVariant {
  return {
    kind: "strip",
    name: `strip_${stripName(tile)}`,
    tile,
    requires: ({ limits }) => limits.maxComputeInvocationsPerWorkgroup >= tile.lanes,
    fits: ({ window }) => window?.side === tile.side && window.stride === tile.stride,
    prefers: ({ groupOutputs }) => groupOutputs <= 4,
  };
}

/** Every kernel for conv2dFilterGradient. The last row takes the shapes that no other prefers. */
export const filterGradientVariants: readonly FilterGradientVariant[] = [
  {
    kind: "direct",
    name: "direct",
    requires: ({ limits }) => limits.maxComputeInvocationsPerWorkgroup >= DIRECT_LANES,
    fits: () => true,
    // Staging is not worth its while on an emulated GPU if there is little to share.
    prefers: (shape, features) =>
      isNarrow(features) && Math.min(shape.groupOutputs, shape.taps) <= small.rows / 2,
  },
  strip({ side: 3, stride: 1, lanes: 64 }),
  strip({ side: 3, stride: 2, lanes: 64 }),
  strip({ side: 5, stride: 1, lanes: 64 }),
  strip({ side: 5, stride: 2, lanes: 64 }),
  strip({ side: 7, stride: 1, lanes: 64 }),
  strip({ side: 7, stride: 2, lanes: 64 }),
  implicit(huge),
  implicit(large),
  implicit(medium),
  implicit(small),
];
