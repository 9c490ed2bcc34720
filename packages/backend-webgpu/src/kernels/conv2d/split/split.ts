import { WORKGROUP_SIZE } from "../../../program/index.js";
import type { BufferRegion, KernelContext } from "../../../runtime/index.js";
import { octavesFor, splitAlongProgram, UNIT, wideBlocksProgram, words } from "../../gemm/split/index.js";
import { PADDED_SIDE, windowExtents } from "../../images/index.js";
import { type ImplicitForm, implicitProgram } from "../implicit.wgsl.js";
import type { ConvProblem } from "../problem.js";
import type { ConvResult } from "../results.wgsl.js";
import type { SplitConvVariant } from "../variants.js";
import {
  imageExponentsProgram,
  imageExtentsProgram,
  splitCopyProgram,
  wideImagesProgram,
} from "./copy.wgsl.js";
import { windowsProgram } from "./product.wgsl.js";
import { CHUNK, paddedChannels } from "./tile.js";

/**
 * An f32 convolution through f16 parts: copies the input with its padding, channels last and split, splits the filters,
 * multiplies filters by windows of the copy on matrix units, and leaves blocks of results that have wide filters or
 * images to the plain kernel, all without asking the device. `regions` are the bindings of the result; `parameters` and
 * `plain` are those of the plain kernel.
 */
export function enqueueSplit(
  context: KernelContext,
  problem: ConvProblem,
  variant: SplitConvVariant,
  result: ConvResult,
  plain: Omit<ImplicitForm, "onlyWide">,
  regions: Readonly<Record<string, BufferRegion>>,
  parameters: Readonly<Record<string, number>>,
): void {
  const { batch, inChannels: channels, outChannels, height, width, kernelHeight, kernelWidth } = problem;
  const { input, filter, top, left, outHeight, outWidth } = problem;
  const { tile } = variant;
  const copied = windowExtents(problem);
  const taps = kernelHeight * kernelWidth;
  const padded_channels = paddedChannels(channels);
  const size = channels * height * width;
  const pixels = batch * outHeight * outWidth;
  // Of one rounding less than a sum in gemm.
  const octaves = octavesFor(taps * channels - 2);
  const rowBlocks = Math.ceil(outChannels / tile.rows);
  const columnBlocks = Math.ceil(pixels / tile.columns);

  const exponents = context.scratch(4 * (outChannels + batch));
  const ofFilters = words(exponents, 0, outChannels);
  const ofImages = words(exponents, outChannels, batch);
  const blocks = context.scratch(4 * (rowBlocks + columnBlocks));
  const chunks = Math.ceil(size / CHUNK);
  const extents = context.scratch(8 * batch * chunks);
  // The last tile reads past the last filter.
  const pitch = 2 * taps * padded_channels;
  const filters = context.scratch(2 * rowBlocks * tile.rows * pitch);
  const copy = context.scratch(4 * batch * copied.height * copied.width * padded_channels);

  context.dispatch(
    splitAlongProgram("taps"),
    { source: filter, parts: filters, exponents: ofFilters },
    {
      ...{ lines: outChannels, matrices: 1, k: taps * padded_channels, pitch: taps * channels, step: 0 },
      ...{ octaves, part_pitch: pitch, taps, channels, padded_channels },
    },
    outChannels,
  );
  context.dispatch(
    wideBlocksProgram(tile.rows),
    { exponents: ofFilters, blocks: words(blocks, 0, rowBlocks) },
    { lines: outChannels, matrices: 1 },
    rowBlocks,
  );
  const isVector = size % 4 === 0 && input.byteOffset % 16 === 0;
  context.dispatch(
    imageExtentsProgram(isVector),
    { input, extents },
    { size, images: batch },
    batch * chunks,
  );
  context.dispatch(
    imageExponentsProgram,
    { extents, exponents: ofImages },
    { images: batch, chunks, octaves },
    batch,
  );
  context.dispatch(
    wideImagesProgram(tile.columns),
    { exponents: ofImages, blocks: words(blocks, rowBlocks, columnBlocks) },
    { pixels, plane: outHeight * outWidth, count: columnBlocks },
    Math.ceil(columnBlocks / WORKGROUP_SIZE),
  );
  context.dispatch(
    splitCopyProgram,
    { input, exponents: ofImages, parts: copy },
    {
      ...{ batch, channels, padded_channels, height, width, top, left },
      ...{ copy_height: copied.height, copy_width: copied.width },
    },
    batch *
      Math.ceil((copied.height * copied.width) / PADDED_SIDE) *
      Math.ceil(padded_channels / PADDED_SIDE),
  );

  const wide = { row_block_step: 0, column_block_step: 0, column_blocks: rowBlocks };
  context.dispatch(
    windowsProgram(tile, result),
    { a: filters, b: copy, exponents, blocks, ...regions },
    {
      ...{ groups: 1, group_outputs: outChannels, pixels, out_height: outHeight, out_width: outWidth },
      ...{ stride_y: problem.strideY, stride_x: problem.strideX, kernel_width: kernelWidth },
      ...{ dilation_y: problem.dilationY, dilation_x: problem.dilationX },
      ...{ copy_height: copied.height, copy_width: copied.width },
      ...{ pixel_units: (2 * padded_channels) / UNIT, a_pitch: pitch, ...wide },
    },
    rowBlocks * columnBlocks,
  );
  context.dispatch(
    implicitProgram(variant.plain, { ...plain, onlyWide: { rows: tile.rows, columns: tile.columns } }),
    { input, filter_: filter, blocks, ...regions },
    { ...parameters, ...wide },
    Math.ceil(outChannels / variant.plain.rows) * Math.ceil(pixels / variant.plain.columns),
  );
}
