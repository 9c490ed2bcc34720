import type { Conv2dProblem, FloatType } from "@backplane/core";
import { widening } from "../convert/index.js";
import { byFloatType, elementFormats } from "../elements/index.js";
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
import { packNanoseconds } from "../panels/index.js";
import { evenParts, wholeLines } from "../vector/index.js";
import { direct, type PlanesTypes } from "./block.js";
import { packFilterKernel } from "./filter.wasm.js";
import { planesKernel } from "./planes.wasm.js";
import {
  type ConvolutionForm,
  type ConvolutionTile,
  convolutionForm,
  convolutionTile,
  productNanoseconds,
} from "./tile.js";

const packKernels = byFloatType(packFilterKernel);
const multiplyKernels: Readonly<Record<ConvolutionForm, Readonly<Record<FloatType, Kernel<PlanesTypes>>>>> = {
  tall: byFloatType((dtype) => planesKernel("tall", dtype)),
  wide: byFloatType((dtype) => planesKernel("wide", dtype)),
};

export const planesKernels: readonly AnyKernel[] = [
  ...Object.values(packKernels),
  ...Object.values(multiplyKernels).flatMap((byDtype) => Object.values(byDtype)),
];

/** Filter elements between two additions to the sums; summing in blocks keeps rounding errors small. */
const depthBlock = 256;
/** Elements of all planes of a chunk, at most: 256 KiB, part of a second-level cache. */
const planeElements = 1 << 16;
/** Places of a chunk, roughly: for many channels, whose sums share the cache, and for few. */
const tallPlaces = 256;
const widePlaces = 4096;
/** Sums that make a chunk worth its while. */
const smallPlaces = 1 << 12;
/** Output channels of a chunk, roughly; the planes are copied again for each. */
const channelShares = [128, 64, 32] as const;

export type ConvolutionShape = Omit<
  Conv2dProblem<CpuMemory>,
  "input" | "filter" | "bias" | "activation" | "output" | "dtype"
>;

/** Whether the kernel is one element and meets each input element once. */
export function isPointwise(shape: ConvolutionShape): boolean {
  const { kernelHeight, kernelWidth, strideY, strideX, top, left, bottom, right } = shape;
  return kernelHeight * kernelWidth * strideY * strideX === 1 && top + left + bottom + right === 0;
}

/** If so, images become single rows. */
export function flattened<Shape extends ConvolutionShape>(shape: Shape): Shape {
  if (!isPointwise(shape)) return shape;
  const pixels = shape.height * shape.width;
  return { ...shape, height: 1, width: pixels, outHeight: 1, outWidth: pixels };
}

/** Output channels of a chunk from which on reading in place is worth it. */
const inPlaceChannels = 64;
/** Addresses this far apart share a set of a first-level cache, which holds at least this many lines. */
const cacheWayBytes = 4096;
const cacheWays = 8;
const lineBytes = 64;

/**
 * Whether a chunk of a flattened shape reads the input in place. That is up to 4% faster than copying it if
 * many output channels use it, unless the elements of all channels at one place share a few sets of the cache.
 */
export function readsInPlace(
  { height, width, outChannels, groups }: ConvolutionShape,
  { channelBlock, depthChannels }: PlanesBlocks,
): boolean {
  if (convolutionForm(outChannels / groups) === "wide" || channelBlock < inPlaceChannels) return false;
  const planeBytes = 4 * height * width;
  const powerOfTwo = planeBytes & -planeBytes;
  const sets = cacheWayBytes / Math.max(lineBytes, Math.min(powerOfTwo, cacheWayBytes));
  return depthChannels <= cacheWays * sets;
}

/** The least useful share of the row elements that tiles compute. */
const leastUsed = 0.8;

/** How sums in f32 get to the output. */
export function directOf(
  { outWidth }: ConvolutionShape,
  { rowBlock, columnBlock, pitch }: PlanesBlocks,
  { channels, vectors }: ConvolutionTile,
): number {
  if (rowBlock === 1 || (columnBlock === outWidth && pitch === outWidth)) return direct.places;
  const tilePlaces = 4 * vectors;
  const computed = Math.ceil(outWidth / tilePlaces) * tilePlaces;
  // Tiles of one channel can leave out their last vectors.
  const fits =
    channels === 1 ? outWidth % 4 === 0 && outWidth >= leastUsed * computed : outWidth === computed;
  return fits ? direct.rows : direct.no;
}

/** How a problem is divided up. */
export interface PlanesBlocks {
  readonly rowBlock: number;
  readonly columnBlock: number;
  readonly channelBlock: number;
  readonly depthChannels: number;
  /** Elements from row to row, from phase to phase, of all phases, of the sums of one channel. */
  readonly pitch: number;
  /** Elements of padding that a row shares with the next one. */
  readonly sharedPadding: number;
  readonly phase: number;
  readonly plane: number;
  readonly sums: number;
  readonly chunks: number;
}

/** Undefined if planes would be too large or mostly empty; this depends on the shape alone. */
export function planesBlocks(
  shape: ConvolutionShape,
  features: Features,
  share: number,
): PlanesBlocks | undefined {
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX, groups } = shape;
  const { outHeight, outWidth } = shape;
  const taps = kernelHeight * kernelWidth;
  const groupOutChannels = shape.outChannels / groups;
  const groupInChannels = shape.inChannels / groups;
  const isEmpty = shape.batch * shape.outChannels * outHeight * outWidth * groupInChannels === 0;
  if (taps > depthBlock || isEmpty) return undefined;
  const form = convolutionForm(groupOutChannels);
  const tile = convolutionTile(form, features);
  const tilePlaces = 4 * tile.vectors;
  const target = form === "wide" ? widePlaces : tallPlaces;
  const columnBlock = outWidth <= 2 * target ? outWidth : evenParts(outWidth, target, tilePlaces);
  const extent = columnBlock + Math.floor(((kernelWidth - 1) * dilationX) / strideX);
  // The zeros right of a row can be those left of the next one. Sums of different rows stay apart.
  const right = extent - shape.left - shape.width;
  const wholeRows = strideX === 1 && columnBlock === outWidth;
  const sharedPadding = wholeRows ? Math.max(0, Math.min(shape.left, right, extent - columnBlock)) : 0;
  const pitch = extent - sharedPadding;
  const rowBlock = rowsOfBlock(outHeight, columnBlock, pitch, target, tilePlaces);
  const phase = (rowBlock + Math.floor(((kernelHeight - 1) * dilationY) / strideY)) * pitch + sharedPadding;
  const plane = strideY * strideX * phase;
  const places = (rowBlock - 1) * pitch + columnBlock;
  if (plane > planeElements || places > 2 * Math.max(rowBlock * columnBlock, tilePlaces)) return undefined;
  const mostChannels = Math.max(
    1,
    Math.min(Math.floor(depthBlock / taps), Math.floor(planeElements / plane)),
  );
  const channelBlock = evenParts(groupOutChannels, share, tile.channels);
  return {
    rowBlock,
    columnBlock,
    channelBlock,
    pitch,
    sharedPadding,
    phase,
    plane,
    depthChannels: evenParts(groupInChannels, mostChannels, 1),
    sums: Math.ceil(places / tilePlaces) * tilePlaces,
    chunks:
      Math.ceil(outHeight / rowBlock) *
      Math.ceil(outWidth / columnBlock) *
      Math.ceil(groupOutChannels / channelBlock) *
      groups *
      shape.batch,
  };
}

/**
 * How many rows a block has: roughly `target` places or up to twice as many, the fewest tiles in all. Tiles also
 * compute the places between rows and fill up the last one: of 28 x 28 places by a 3x3 kernel 6% with 7
 * rows to a block, 4% with 14.
 */
function rowsOfBlock(
  outHeight: number,
  columnBlock: number,
  pitch: number,
  target: number,
  tilePlaces: number,
): number {
  const tilesOf = (rows: number): number => Math.ceil(((rows - 1) * pitch + columnBlock) / tilePlaces);
  const partsOf = (places: number): number => Math.ceil(outHeight / Math.max(1, Math.round(places / pitch)));
  let best = 0;
  let fewest = Number.POSITIVE_INFINITY;
  for (let parts = partsOf(target); parts >= partsOf(2 * target); parts--) {
    const rows = Math.ceil(outHeight / parts);
    const rest = outHeight % rows;
    const tiles = Math.floor(outHeight / rows) * tilesOf(rows) + (rest === 0 ? 0 : tilesOf(rest));
    // Small blocks are easier to divide among workers.
    if (tiles >= 0.995 * fewest) continue;
    best = rows;
    fewest = tiles;
  }
  return best;
}

/** Returns the plan by planes, or undefined if the shape does not suit it. */
export function planPlanes(
  given: Conv2dProblem<CpuMemory>,
  { features, workers, workspace }: PlanContext,
): readonly Launch[] | undefined {
  const problem = flattened(given);
  const { dtype, inChannels, outChannels, height, width, outHeight, outWidth, groups } = problem;
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX, top, left } = problem;
  const groupInChannels = inChannels / groups;
  const groupOutChannels = outChannels / groups;
  const depth = groupInChannels * kernelHeight * kernelWidth;
  const form = convolutionForm(groupOutChannels);
  const { channels } = convolutionTile(form, features);
  // Use fewer channels per chunk if that gives all workers something to do; results are the same.
  const enough = workers === 1 ? 1 : 4 * workers;
  let blocks: PlanesBlocks | undefined;
  for (const share of channelShares) {
    blocks = planesBlocks(problem, features, share);
    if (blocks !== undefined && blocks.chunks >= enough) break;
  }
  if (blocks === undefined) return undefined;

  const launches: Launch[] = [];
  const panels = Math.ceil(groupOutChannels / channels);
  const groupFilterBytes = 4 * panels * depth * channels;
  let filter = address(problem.filter);
  const widen = widening[dtype];
  if (form === "tall") {
    const packed = workspace(groups * groupFilterBytes);
    const parameters = { filter, packed, groupOutChannels, depth, groupFilterBytes, panels };
    launches.push(
      packKernels[dtype].launch(parameters, groups * panels, outChannels * depth * packNanoseconds),
    );
    filter = packed;
  } else if (widen !== undefined) {
    const widened = workspace(4 * outChannels * depth);
    launches.push(widen(filter, widened, outChannels * depth));
    filter = widened;
  }

  // Small planes are done several a chunk.
  const images = problem.batch * groups;
  const small = Math.max(1, Math.floor(smallPlaces / (blocks.sums * blocks.channelBlock)));
  const imagesPerChunk = Math.min(small, Math.max(1, Math.floor(blocks.chunks / enough)));
  const chunks = (blocks.chunks / images) * Math.ceil(images / imagesPerChunk);

  const nanoseconds = problem.batch * outChannels * outHeight * outWidth * depth * productNanoseconds;

  const { rowBlock, columnBlock, channelBlock, depthChannels, pitch, sharedPadding } = blocks;
  const { converted } = elementFormats[dtype];
  const inPlace = !converted && problem !== given && readsInPlace(problem, blocks);
  const planes = wholeLines(4 * depthChannels * kernelHeight * kernelWidth);
  // The last tile reads past the planes, and copies may reach past their end.
  const sumsOffset = planes + wholeLines(4 * depthChannels * blocks.plane + 128);
  const workspaceBytes = sumsOffset + wholeLines(4 * channelBlock * blocks.sums);
  const parameters = {
    height,
    width,
    outHeight,
    outWidth,
    kernelHeight,
    kernelWidth,
    strideY,
    strideX,
    top,
    left,
    dilationY,
    dilationX,
    input: address(problem.input),
    filter,
    bias: problem.bias === undefined ? 0 : address(problem.bias),
    activation: activationCode(problem.activation),
    output: address(problem.output),
    inChannels,
    outChannels,
    groups,
    groupInChannels,
    groupOutChannels,
    groupFilterBytes,
    depthChannels,
    channelBlock,
    rowBlock,
    columnBlock,
    channelBlocks: Math.ceil(groupOutChannels / channelBlock),
    rowBlocks: Math.ceil(outHeight / rowBlock),
    columnBlocks: Math.ceil(outWidth / columnBlock),
    images,
    imagesPerChunk,
    pitch,
    sharedPadding,
    phaseBytes: inPlace ? 4 * height * width : 4 * blocks.phase,
    inPlace: inPlace ? 1 : 0,
    direct: converted ? direct.no : directOf(problem, blocks, convolutionTile(form, features)),
    sumsBytes: 4 * blocks.sums,
    workspace: workspace(workers * workspaceBytes),
    workspaceBytes,
    planes,
    sums: sumsOffset,
  };
  launches.push(multiplyKernels[form][dtype].launch(parameters, chunks, nanoseconds));
  return launches;
}
