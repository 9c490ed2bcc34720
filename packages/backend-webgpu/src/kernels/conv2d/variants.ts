import { type ConvolutionTile, convolutionTransforms, type FloatType } from "@backplane/core";
import { count, flag, floatType, isCount, oneOf, type ShapeFields } from "../fields.js";
import { canSplit, type MatrixTile, matrixTileName, splitTile } from "../gemm/index.js";
import { BUSY_WORKGROUPS, isNarrow, takesLargeTexts } from "../machine.js";
import { hasRoomForTile, type ProductTile, productTiles, tileName, tileThreads } from "../tiles/index.js";
import type { Variant } from "../variant.js";
import { type ChannelsTile, COLUMNS, channelsName } from "./channels.wgsl.js";
import type { DenseTile } from "./dense.wgsl.js";
import { type DirectTile, directName } from "./direct.wgsl.js";
import { paddedChannels } from "./split/tile.js";
import { type StripTile, stripName } from "./strip.wgsl.js";

/** The facts on which a choice between variants may be based. */
export interface ConvShape {
  readonly dtype: FloatType;
  readonly batch: number;
  readonly groups: number;
  /** Output channels of one group. */
  readonly groupOutputs: number;
  /** Terms of the sum for one output element: 0 if there are no input channels. */
  readonly taps: number;
  /** Output pixels of the whole batch. */
  readonly pixels: number;
  /** A 1 x 1 filter with stride 1, no padding, one group and no bias: a product of matrices. */
  readonly pointwise: boolean;
  /** One input channel for each group, and a filter without dilation: its side and stride, if square. */
  readonly window: { readonly side: number; readonly stride: number } | undefined;
  /** Rows and columns of the output, if transforms apply and the option `transformedConvolutions` allows them. */
  readonly transformable?: { readonly height: number; readonly width: number } | undefined;
  /** Input channels, if the option `f32Products` allows products of split numbers, and there is room for a copy of the input. */
  readonly splittable?: number | undefined;
  /** Images have channels last; only of those that a kernel takes as they lie. Default: channels are first. */
  readonly channelsLast?: true | undefined;
}

type Window = NonNullable<ConvShape["window"]>;

export const convFields: ShapeFields<ConvShape> = {
  ...{ dtype: floatType, batch: count, groups: count, groupOutputs: count, taps: count, pixels: count },
  pointwise: flag,
  window: {
    // Absent in JSON if it is undefined.
    is: (value) => value === undefined || isWindow(value),
    allowed: "nothing, or a side and a stride",
    text: ({ side, stride }: Window) => `${side}/${stride}`,
  },
  transformable: {
    is: (value) => value === undefined || isImage(value),
    allowed: "nothing, or a height and a width",
    text: ({ height, width }: Image) => `${height}x${width}`,
  },
  channelsLast: oneOf(undefined, true),
  splittable: {
    is: (value) => value === undefined || isCount(value),
    allowed: "nothing, or a number of channels",
  },
};

type Image = NonNullable<ConvShape["transformable"]>;

function isImage(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { height, width } = value as Partial<Image>;
  return isCount(height) && isCount(width);
}

function isWindow(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { side, stride } = value as Partial<Window>;
  return isCount(side) && isCount(stride);
}

export type ConvVariant =
  | (Variant<ConvShape> & { readonly kind: "gemm" })
  | (Variant<ConvShape> & { readonly kind: "implicit"; readonly tile: ProductTile })
  | (Variant<ConvShape> & { readonly kind: "strip"; readonly tile: StripTile })
  | (Variant<ConvShape> & { readonly kind: "direct"; readonly tile: DirectTile })
  | (Variant<ConvShape> & { readonly kind: "channels"; readonly tile: ChannelsTile })
  | (Variant<ConvShape> & { readonly kind: "dense"; readonly tile: DenseTile })
  | (Variant<ConvShape> & { readonly kind: "transformed"; readonly tile: ConvolutionTile })
  | SplitConvVariant;

/** f32 through f16; only with the option `f32Products`. */
export interface SplitConvVariant extends Variant<ConvShape> {
  readonly kind: "split";
  readonly tile: MatrixTile;
  /** The tile for the blocks of `tile` that cannot be split; it divides them. */
  readonly plain: ProductTile;
}

/** Groups with fewer output channels would leave most rows of a tile empty. */
const FEW_OUTPUTS = 8;

export function convTileCount(shape: ConvShape, tile: ProductTile): number {
  return Math.ceil(shape.groupOutputs / tile.rows) * Math.ceil(shape.pixels / tile.columns) * shape.groups;
}

/** Invocations of the larger tiles that run at the same time on a large GPU: 256 on each of 132 multiprocessors. */
const RUNNING_INVOCATIONS = 256 * 132;

/**
 * Whether most rows of the tiles have an output channel, and the tiles come in rounds that keep this
 * share of a GPU busy; smaller tiles are slower, but leave less of the last round empty.
 */
function fills(tile: ProductTile, share: number): ConvVariant["prefers"] {
  return (shape, features) => {
    const rows = Math.ceil(shape.groupOutputs / tile.rows) * tile.rows;
    const rounds = (convTileCount(shape, tile) * tileThreads(tile).total) / RUNNING_INVOCATIONS;
    return !isNarrow(features) && shape.groupOutputs >= 0.8 * rows && rounds >= share * Math.ceil(rounds);
  };
}

function implicit(tile: ProductTile, prefers: ConvVariant["prefers"]): ConvVariant {
  return {
    kind: "implicit",
    name: `implicit_${tileName(tile)}`,
    tile,
    requires: (features) => hasRoomForTile(features, tile),
    fits: ({ taps, channelsLast }) => taps > 0 && channelsLast === undefined,
    prefers,
  };
}

function direct(tile: DirectTile, prefers: ConvVariant["prefers"]): ConvVariant {
  return {
    kind: "direct",
    name: `direct_${directName(tile)}`,
    tile,
    requires: ({ limits }) => limits.maxComputeInvocationsPerWorkgroup >= tile.lanes,
    fits: ({ channelsLast }) => channelsLast === undefined,
    prefers,
  };
}

function strip(tile: StripTile): ConvVariant {
  return {
    kind: "strip",
    name: `strip_${stripName(tile)}`,
    tile,
    requires: ({ limits }) => limits.maxComputeInvocationsPerWorkgroup >= tile.lanes,
    fits: ({ window }) => window?.side === tile.side && window.stride === tile.stride,
    prefers: (shape, features) => shape.groupOutputs === 1 || isNarrow(features),
  };
}

/** Channels last, with a filter for each. Several rows share what they load, if enough invocations are left. */
function channels(tile: ChannelsTile): ConvVariant {
  return {
    kind: "channels",
    name: `channels_${channelsName(tile)}`,
    tile,
    requires: ({ limits }) => limits.maxComputeInvocationsPerWorkgroup >= tile.lanes,
    // Larger filters would not stay in registers from row to row.
    fits: ({ channelsLast, groups, taps }) =>
      channelsLast === true && groups > 1 && (tile.rows === 1 || taps <= 9),
    prefers: ({ pixels, groups }, features) =>
      tile.rows === 1 ||
      (!isNarrow(features) && (pixels * groups) / (4 * COLUMNS * tile.rows) >= RUNNING_INVOCATIONS),
  };
}

/** Few channels, which are last, and filters of all of them. Several pixels share weights, if enough invocations are left. */
function dense(tile: DenseTile): ConvVariant {
  return {
    kind: "dense",
    name: `dense_${tile.columns}`,
    tile,
    requires: ({ limits }) => limits.maxComputeInvocationsPerWorkgroup >= tile.lanes,
    fits: ({ channelsLast, groups }) => channelsLast === true && groups === 1,
    prefers: ({ pixels, groupOutputs }) =>
      tile.columns === 1 || (pixels * groupOutputs) / (4 * tile.columns) >= RUNNING_INVOCATIONS,
  };
}

/**
 * Only with the option `transformedConvolutions`. Transforms take time for each number, and products for each pair of
 * channels: `channels` of both are enough to make up for it.
 */
function transformed(tile: ConvolutionTile, channels: number): ConvVariant {
  const { outputs } = convolutionTransforms[tile];
  return {
    kind: "transformed",
    name: `transformed_${tile}`,
    tile,
    requires: ({ transformedConvolutions = "never" }) =>
      transformedConvolutions === tile || (transformedConvolutions === "4x4" && tile === "2x2"),
    fits: ({ transformable }) => transformable !== undefined,
    prefers: ({ transformable, taps, groupOutputs, batch, pixels }) => {
      const { height, width } = transformable!;
      const tiles = batch * Math.ceil(height / outputs) * Math.ceil(width / outputs);
      // For each output and pair of channels: 9 without transforms.
      const multiplications = (tiles * (outputs + 2) ** 2) / pixels;
      return (
        Math.min(taps / 9, groupOutputs) >= channels &&
        taps * groupOutputs * pixels >= LARGE_CONVOLUTION &&
        multiplications <= 6 &&
        tiles >= FEWEST_TILES
      );
    },
  };
}

/** Only with the option `f32Products`. */
function split(tile: MatrixTile, plain: ProductTile): SplitConvVariant {
  return {
    kind: "split",
    name: `split_${matrixTileName(tile)}`,
    ...{ tile, plain },
    requires: (features) => canSplit(features, tile, plain),
    fits: ({ splittable, channelsLast }) => splittable !== undefined && channelsLast === undefined,
    prefers: ({ splittable: channels = 0, taps, groupOutputs, pixels }) => {
      const tiles = Math.ceil(groupOutputs / tile.rows) * Math.ceil(pixels / tile.columns);
      const padded = (paddedChannels(channels) / channels) * tiles * tile.rows * tile.columns;
      // With filters of one tap there are few products for each number that is copied.
      const fewest = taps > channels ? 96 : BUSY_WORKGROUPS;
      return taps >= 512 && tiles >= fewest && padded <= 1.5 * groupOutputs * pixels;
    },
  };
}

/** Multiplications from which transforms are worth three more dispatches. */
const LARGE_CONVOLUTION = 3e8;

/** Products with fewer columns leave most of their tiles empty. */
const FEWEST_TILES = 32;

const { huge, large, medium, small } = productTiles;

/** Every kernel for conv2d. The last row takes the shapes that no other prefers. */
export const convVariants: readonly ConvVariant[] = [
  {
    kind: "gemm",
    name: "gemm",
    requires: () => true,
    fits: (shape) => shape.pointwise,
    // Its tiles end at the end of each image.
    prefers: (shape, features) =>
      shape.batch === 1 ||
      shape.groupOutputs < FEW_OUTPUTS ||
      isNarrow(features) ||
      (shape.dtype === "f16" && features.subgroupMatrices.length > 0),
  },
  transformed("4x4", 16),
  transformed("2x2", 96),
  split(splitTile, productTiles.large),
  strip({ side: 3, stride: 1, rows: 4, lanes: 64 }),
  strip({ side: 3, stride: 2, rows: 2, lanes: 64 }),
  strip({ side: 5, stride: 1, rows: 4, lanes: 64 }),
  strip({ side: 5, stride: 2, rows: 2, lanes: 64 }),
  strip({ side: 7, stride: 1, rows: 4, lanes: 64 }),
  channels({ rows: 4, lanes: 64 }),
  channels({ rows: 2, lanes: 64 }),
  channels({ rows: 1, lanes: 64 }),
  dense({ columns: 4, lanes: 64 }),
  dense({ columns: 1, lanes: 64 }),
  implicit(huge, fills(huge, 0.7)),
  implicit(large, fills(large, 0.85)),
  implicit(
    medium,
    (shape, features) =>
      shape.groupOutputs > small.rows &&
      (takesLargeTexts(features) || convTileCount(shape, medium) >= BUSY_WORKGROUPS / 2),
  ),
  // Staging is worth a half-empty tile, but not on an emulated GPU.
  implicit(
    small,
    (shape, features) => shape.groupOutputs > (isNarrow(features) ? small.rows / 2 : FEW_OUTPUTS - 1),
  ),
  direct({ channels: 1, pixels: 1, lanes: 64 }, (shape) => shape.groupOutputs === 1),
  direct({ channels: 4, pixels: 2, lanes: 64 }, () => true),
];
