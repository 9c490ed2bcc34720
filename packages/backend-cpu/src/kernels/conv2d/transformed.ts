import { type Conv2dProblem, type ConvolutionTile, isTransformable } from "@backplane/core";
import { activationCode } from "../epilogue/index.js";
import {
  type AnyKernel,
  address,
  type CpuMemory,
  type Features,
  type Kernel,
  type Launch,
  type PlanContext,
} from "../kernel.js";
import { tileColumns, tileRows } from "../tile/index.js";
import { evenParts } from "../vector/index.js";
import { productNanoseconds } from "./tile.js";
import { transformedKernel } from "./transformed.wasm.js";
import {
  filterChannels,
  type TransformFilterTypes,
  transformedTaps,
  transformFilterKernel,
} from "./transformed-filter.wasm.js";
import { oddLines, type TransformedTypes, transformedRoom } from "./transformed-types.js";
import { transforms } from "./transforms.js";

type Problem = Conv2dProblem<CpuMemory>;
type Shape = Omit<Problem, "input" | "filter" | "bias" | "activation" | "output">;

function byTile<Made>(make: (tile: ConvolutionTile) => Made): Readonly<Record<ConvolutionTile, Made>> {
  return { "2x2": make("2x2"), "4x4": make("4x4") };
}

const filterKernels: Readonly<Record<ConvolutionTile, Kernel<TransformFilterTypes>>> =
  byTile(transformFilterKernel);
const kernels: Readonly<Record<ConvolutionTile, Kernel<TransformedTypes>>> = byTile(transformedKernel);

export const transformedKernels: readonly AnyKernel[] = [
  ...Object.values(filterKernels),
  ...Object.values(kernels),
];

/** Transformed filters of up to so many bytes are made once for all chunks: they then stay in a cache. */
const mostFilterBytes = 1 << 22;
/** With fewer tiles than this each transformed filter is used once or twice. */
const fewTiles = 48;

/** Input channels whose products are summed before they are added to others. A worker's own filters need room, too. */
const depths = { shared: 128, own: 64 } as const;
/** Panels of output channels whose filters a chunk transforms at a time. */
const ownPanels = 4;

/** Tiles of a chunk, at most: those of 4 x 4 outputs with shared filters have more data. */
const tileShares: Readonly<Record<ConvolutionTile, readonly number[]>> = {
  "2x2": [56, 32, 16, 8],
  "4x4": [24, 16, 8],
};
const ownTileShares = [56, 32, 24, 16, 8];
/** Output channels of a chunk, at most; the inputs are transformed again for each. */
const channelShares = [128, 64, 32];

/**
 * Nanoseconds that one worker takes, for one point of a tile: for an input or sum of a tile and a channel, and for a filter. Measured
 * as `productNanoseconds` was; only their relation matters.
 */
const placeNanoseconds = 0.5;
const filterNanoseconds = 0.3;
/** For an element of images that are transposed before and after. */
const transposedNanoseconds = 0.6;

/** How a problem is divided. Sums depend on `depthChannels` alone, and that on the shape alone. */
export interface TransformedBlocks {
  readonly tilesY: number;
  readonly tilesX: number;
  readonly tiles: number;
  /** Whether chunks transform filters themselves. */
  readonly ownFilters: boolean;
  readonly depthChannels: number;
  readonly tilesPerChunk: number;
  readonly channelBlock: number;
  readonly tileChunks: number;
  readonly chunks: number;
  /** Roughly how long it takes. */
  readonly nanoseconds: number;
}

/** Divides a problem so that it takes the workers the least time. */
export function transformedBlocks(
  { batch, inChannels, outChannels, outHeight, outWidth }: Shape,
  tile: ConvolutionTile,
  features: Features,
  workers: number,
): TransformedBlocks {
  const { outputs, points: along } = transforms[tile];
  const points = along ** 2;
  const tilesY = Math.ceil(outHeight / outputs);
  const tilesX = Math.ceil(outWidth / outputs);
  const tiles = batch * tilesY * tilesX;
  const filters = inChannels * outChannels;
  const rows = tileRows(features);
  const packedFilters = inChannels * Math.ceil(outChannels / rows) * rows;
  const ownFilters = tiles <= fewTiles || 4 * points * packedFilters > mostFilterBytes;
  const depthChannels = evenParts(inChannels, ownFilters ? depths.own : depths.shared, 1);
  const shared = ownFilters ? 0 : points * filters * filterNanoseconds;

  const divided = (tileShare: number, channelShare: number): TransformedBlocks => {
    const tilesPerChunk = evenParts(tiles, tileShare, tileColumns);
    const channelBlock = evenParts(outChannels, channelShare, rows);
    const tileChunks = Math.ceil(tiles / tilesPerChunk);
    const channelChunks = Math.ceil(outChannels / channelBlock);
    /** For some tiles, which fill `lanes`, and all output channels in `parts`. */
    const time = (
      tiles: number,
      lanes: number,
      outChannels: number,
      parts: number,
      timesFilters: number,
    ): number =>
      points *
      (lanes * inChannels * outChannels * productNanoseconds +
        tiles * (inChannels * parts + outChannels) * placeNanoseconds +
        timesFilters * inChannels * outChannels * filterNanoseconds);
    const lanes = Math.ceil(tiles / tileColumns) * tileColumns;
    const all = time(tiles, lanes, outChannels, channelChunks, ownFilters ? tileChunks : 0);
    const largest = time(tilesPerChunk, tilesPerChunk, channelBlock, 1, ownFilters ? 1 : 0);
    return {
      ...{ tilesY, tilesX, tiles, ownFilters, depthChannels, tilesPerChunk, channelBlock, tileChunks },
      chunks: tileChunks * channelChunks,
      // Workers finish up to a chunk after one another.
      nanoseconds: (shared + all + (workers - 1) * largest) / workers,
    };
  };
  const divisions = (ownFilters ? ownTileShares : tileShares[tile]).flatMap((tileShare) =>
    channelShares.map((channelShare) => divided(tileShare, channelShare)),
  );
  return divisions.reduce((best, next) => (next.nanoseconds < best.nanoseconds ? next : best));
}

/**
 * Returns the tile by which a problem is computed fastest, none larger than `largest`, or undefined if transforms do not suit its
 * shape, or make it slower. That depends on the shape alone.
 */
export function transformedTile(
  problem: Shape,
  largest: ConvolutionTile,
  features: Features,
): ConvolutionTile | undefined {
  const { dtype, layout, batch, inChannels, outChannels, height, width, outHeight, outWidth } = problem;
  const outPixels = batch * outHeight * outWidth;
  if (!isTransformable(dtype, problem) || inChannels * outChannels * outPixels === 0) return undefined;
  let fastest: ConvolutionTile | undefined;
  let least = outPixels * inChannels * outChannels * transformedTaps * productNanoseconds;
  const moved = batch * inChannels * height * width + outChannels * outPixels;
  const before = layout === "NHWC" ? moved * transposedNanoseconds : 0;
  const tiles: readonly ConvolutionTile[] = largest === "2x2" ? ["2x2"] : ["2x2", "4x4"];
  for (const tile of tiles) {
    const nanoseconds = before + transformedBlocks(problem, tile, features, 1).nanoseconds;
    if (nanoseconds >= least) continue;
    fastest = tile;
    least = nanoseconds;
  }
  return fastest;
}

/** Returns the plan by transforms, for images with channels first. Transforms suit the problem. */
export function planTransformed(
  problem: Problem,
  { features, workers, workspace }: PlanContext,
  tile: ConvolutionTile,
): readonly Launch[] {
  const { inChannels, outChannels, height, width, outHeight, outWidth, top, left } = problem;
  const points = transforms[tile].points ** 2;
  const blocks = transformedBlocks(problem, tile, features, workers);
  const {
    tilesY,
    tilesX,
    tiles,
    ownFilters,
    depthChannels,
    tilesPerChunk,
    channelBlock,
    tileChunks,
    chunks,
  } = blocks;
  const rows = tileRows(features);
  const filterBlock = ownFilters ? Math.min(ownPanels * rows, channelBlock) : channelBlock;
  const panels = Math.ceil(outChannels / rows);
  const panelBytes = 4 * rows * inChannels;
  const pointBytes = oddLines(ownFilters ? 4 * filterBlock * depthChannels : panels * panelBytes);
  const launches: Launch[] = [];
  let filter = address(problem.filter);
  if (!ownFilters) {
    const transformed = workspace(points * pointBytes);
    const parts = Math.ceil(inChannels / filterChannels);
    launches.push(
      filterKernels[tile].launch(
        { filter, transformed, inChannels, outChannels, parts, panelBytes, pointBytes },
        panels * parts,
        inChannels * outChannels * points * filterNanoseconds,
      ),
    );
    filter = transformed;
  }
  const room = transformedRoom(tile, {
    tiles: tilesPerChunk,
    inChannels: depthChannels,
    outChannels: Math.min(channelBlock, outChannels),
    filterPointBytes: ownFilters ? pointBytes : 0,
  });
  const parameters = {
    ...{
      input: address(problem.input),
      filter,
      ownFilters: ownFilters ? 1 : 0,
      filterBlock,
      panelBytes,
      pointBytes,
    },
    bias: problem.bias === undefined ? 0 : address(problem.bias),
    activation: activationCode(problem.activation),
    output: address(problem.output),
    ...{ inChannels, outChannels, height, width, outHeight, outWidth, top, left },
    ...{ tilesY, tilesX, tiles, tilesPerChunk, channelBlock, tileChunks, depthChannels },
    ...{ ...room, rooms: workspace(workers * room.roomBytes) },
  };
  launches.push(kernels[tile].launch(parameters, chunks, blocks.nanoseconds * workers));
  return launches;
}
