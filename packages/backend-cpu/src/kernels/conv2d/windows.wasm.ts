import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, f32, i32, type Local, type ModuleBuilder, select } from "../../wasm/index.js";
import { elementFormats, elementsOf } from "../elements/index.js";
import { epilogueFunction, hasEpilogue } from "../epilogue/index.js";
import { blockFunction, finishRows, spareBytes, type Tile } from "../gemm/index.js";
import { type WindowPlaces, windowPlaces } from "../images/index.js";
import { defineKernel, type Features, type Kernel } from "../kernel.js";
import { gatherFunction, packFunction } from "../panels/index.js";
import { tileColumns, tileRows } from "../tile/index.js";
import { windowPanels } from "./window-panels.js";

/** The register tile of the products: pixels x output channels. */
export function windowsTile(features: Features): Tile {
  return { rows: tileRows(features), columns: tileColumns, fused: features.relaxedSimd };
}

const filterTypes = {
  filter: "i32",
  /** Packed: [group][stretch][panel][element of the stretch][channels of the tile]. */
  packed: "i32",
  groupOutChannels: "i32",
  groupInChannels: "i32",
  /** kernelHeight * kernelWidth */
  taps: "i32",
  /** Input channels whose products are summed before they are added to the output. */
  stretchChannels: "i32",
  /** Bytes of one group, packed. */
  groupPackedBytes: "i32",
} as const;

type FilterTypes = typeof filterTypes;

export type PackWindowsTypes = FilterTypes & Readonly<Record<"stretches" | "panelBlocks", "i32">>;

const packTypes: PackWindowsTypes = { ...filterTypes, stretches: "i32", panelBlocks: "i32" };

/** Panels of output channels that one chunk packs. */
export const packedPanels = 8;

type FilterLocals = { readonly [Name in keyof FilterTypes]: Local<"i32"> };

/**
 * Packs `count` output channels of a group from `channel` on, for the input channels of a stretch from `first` on. In a panel,
 * the channels of a pixel of the window follow one another.
 */
export function emitPackFilter(
  f: FunctionBuilder,
  module: ModuleBuilder,
  dtype: FloatType,
  p: FilterLocals,
  part: Readonly<Record<"group" | "channel" | "count" | "first" | "lines", Local<"i32">>>,
): void {
  const { group, channel, count, first, lines } = part;
  const { shift } = elementFormats[dtype];
  const lineBytes = f.let(i32.shl(i32.mul(p.groupInChannels, p.taps), shift));
  const channels = f.let(i32.minU(i32.sub(p.groupInChannels, first), p.stretchChannels));
  const line = i32.add(i32.mul(group, p.groupOutChannels), channel);
  const start = i32.add(p.filter, i32.shl(i32.mul(first, p.taps), shift));
  const from = f.let(i32.add(start, i32.mul(line, lineBytes)));
  const depth = f.let(i32.mul(channels, p.taps));
  const panels = f.let(i32.add(p.packed, i32.mul(group, p.groupPackedBytes)));
  f.add(panels, i32.shl(i32.add(stretchStart(p, first), i32.mul(channel, depth)), 2));
  f.if(
    i32.eq(p.taps, 1),
    () => f.call(packFunction(module, dtype, tileColumns), from, lineBytes, count, depth, panels, 1, 0),
    () => {
      const gather = gatherFunction(module, dtype, tileColumns);
      const panelBytes = f.let(i32.mul(depth, 4 * tileColumns));
      const step = f.let(i32.mul(channels, 4 * tileColumns));
      const left = f.let(count);
      f.while(i32.gtS(left, 0), () => {
        const last = f.let(i32.sub(left, 1));
        for (let i = 0; i < tileColumns; i++)
          f.store(lines, i32.add(from, i32.mul(i32.minU(last, i), lineBytes)), 4 * i);
        const offset = f.let(i32.const(0));
        const to = f.let(panels);
        f.forRange(0, channels, () => {
          f.call(gather, lines, offset, p.taps, to, step);
          f.add(offset, i32.shl(p.taps, shift));
          f.add(to, 4 * tileColumns);
        });
        f.add(from, i32.mul(lineBytes, tileColumns));
        f.add(panels, panelBytes);
        f.set(left, i32.sub(left, tileColumns));
      });
    },
  );
}

/** Elements of the panels of a group before those of the stretch from input channel `first` on. */
function stretchStart(
  { groupOutChannels, taps }: Pick<FilterLocals, "groupOutChannels" | "taps">,
  first: Local<"i32">,
) {
  const whole = i32.and(i32.add(groupOutChannels, tileColumns - 1), -tileColumns);
  return i32.mul(i32.mul(whole, taps), first);
}

/** Packs the filter for several chunks of `windowsKernel`. */
export function packWindowsKernel(dtype: FloatType): Kernel<PackWindowsTypes> {
  return defineKernel({
    name: `conv2d_windows_pack_${dtype}`,
    parameters: packTypes,
    scratchBytes: 4 * tileColumns,
    emit(f, { parameters, chunk, scratch, module }) {
      const { stretches, panelBlocks, stretchChannels, groupOutChannels } = parameters;
      const channel = f.let(i32.mul(i32.remU(chunk, panelBlocks), packedPanels * tileColumns));
      const rest = f.let(i32.divU(chunk, panelBlocks));
      const first = f.let(i32.mul(i32.remU(rest, stretches), stretchChannels));
      const group = f.let(i32.divU(rest, stretches));
      const count = f.let(i32.minU(i32.sub(groupOutChannels, channel), packedPanels * tileColumns));
      emitPackFilter(f, module, dtype, parameters, { group, channel, count, first, lines: scratch });
    },
  });
}

const ownTypes = {
  input: "i32",
  /** f32; 0: none. */
  bias: "i32",
  /** A value of `activationCode`. */
  activation: "i32",
  output: "i32",
  inChannels: "i32",
  outChannels: "i32",
  /** Of the output, through the whole batch; and a chunk's share of them, for one group. */
  pixels: "i32",
  pixelsPerChunk: "i32",
  pixelChunks: "i32",
  /** 1: the chunk, which is the only one, packs the filter itself. */
  packsFilter: "i32",
  /** Room of worker 0: zeros, panels of windows and, for converted types, sums. Bytes from worker to worker. */
  rooms: "i32",
  roomBytes: "i32",
  zeroBytes: "i32",
  sums: "i32",
} as const;

export type WindowsTypes = FilterTypes & WindowPlaces & typeof ownTypes;

export const windowsTypes: WindowsTypes = { ...filterTypes, ...windowPlaces, ...ownTypes };

const one = 0x3f800000;

/**
 * Convolution of images with channels last, as a matrix product: windows (pixels x window elements) * filter (window elements x
 * output channels). The result lies as the output does. A chunk gathers its windows right into the panels that the
 * product reads, some channels of one pixel at a time; elements beyond the image come from a row of zeros.
 */
export function windowsKernel(dtype: FloatType): Kernel<WindowsTypes> {
  return defineKernel({
    name: `conv2d_windows_${dtype}`,
    parameters: windowsTypes,
    scratchBytes: 512, // A tile for the edges, and what is known of the windows of a panel.
    emit(f, { parameters, chunk, scratch, worker, features, module }) {
      const tile = windowsTile(features);
      const elements = elementsOf(f, dtype);
      const { groupInChannels, groupOutChannels, taps, stretchChannels, pixelsPerChunk } = parameters;
      const { outChannels, pixelChunks } = parameters;
      const group = f.let(i32.divU(chunk, pixelChunks));
      const pixel = f.let(i32.mul(i32.remU(chunk, pixelChunks), pixelsPerChunk));
      const pixels = f.let(i32.minU(i32.sub(parameters.pixels, pixel), pixelsPerChunk));
      const zeros = f.let(i32.add(parameters.rooms, i32.mul(worker, parameters.roomBytes)));
      f.memoryFill(zeros, 0, parameters.zeroBytes);
      const windows = f.let(i32.add(zeros, parameters.zeroBytes));
      const packed = f.let(i32.add(parameters.packed, i32.mul(group, parameters.groupPackedBytes)));

      const outChannel = f.let(i32.mul(group, groupOutChannels));
      const element = i32.add(i32.mul(pixel, outChannels), outChannel);
      const output = f.let(i32.add(parameters.output, i32.shl(element, elements.shift)));
      const outputStride = f.let(i32.shl(outChannels, elements.shift));
      // f32 is summed in the output; other types in the room, and rounded at the end.
      const sums = elements.converted ? f.let(i32.add(zeros, parameters.sums)) : output;
      const sumsStride = elements.converted ? f.let(i32.shl(groupOutChannels, 2)) : outputStride;

      const lines = f.let(i32.add(scratch, spareBytes(tile)));
      f.forRange(
        0,
        groupInChannels,
        (first) => {
          const channels = f.let(i32.minU(i32.sub(groupInChannels, first), stretchChannels));
          f.if(parameters.packsFilter, () => {
            const none = f.let(i32.const(0));
            emitPackFilter(f, module, dtype, parameters, {
              ...{ group, first, channel: none, count: groupOutChannels, lines },
            });
          });
          const inChannel = i32.add(i32.mul(group, groupInChannels), first);
          const source = f.let(i32.add(parameters.input, i32.shl(inChannel, elements.shift)));
          const panels = windowPanels(f, module, dtype, tile.rows, parameters, {
            ...{ source, channels, zeros, pixel, pixels, lines },
          });
          const panel = f.let(windows);
          panels.each(({ isInside }) => panels.gather(panel, isInside));
          const depth = f.let(i32.mul(channels, taps));
          f.call(
            blockFunction(module, tile),
            windows,
            i32.mul(depth, 4 * tile.rows),
            i32.add(packed, i32.shl(stretchStart(parameters, first), 2)),
            depth,
            pixels,
            groupOutChannels,
            sums,
            sumsStride,
            one,
            select(i32.const(one), i32.const(0), first),
            scratch,
            1,
          );
        },
        { step: stretchChannels },
      );

      const { activation } = parameters;
      const biasStep = f.let(i32.const(4));
      const bias = f.let(parameters.bias);
      f.if(bias, () => f.add(bias, i32.shl(outChannel, 2)));
      const epilogue = { bias, biasStep, activation };
      if (elements.converted)
        finishRows(f, module, elements, {
          ...{ sums, sumsStride, m: pixels, n: groupOutChannels, c: output, stride: outputStride, epilogue },
          ...{ alpha: f.let(f32.const(1)), beta: f.let(f32.const(0)) },
        });
      else
        f.if(hasEpilogue(epilogue), () =>
          f.call(
            epilogueFunction(module),
            ...[output, outputStride, pixels, groupOutChannels, bias, biasStep, activation],
          ),
        );
    },
  });
}
