import type { DType } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i32,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../convert/elements.js";
import { packFunction } from "../gemm/pack.js";
import { defineKernel, type Features, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/map.js";

/** What the innermost loop keeps in registers: output channels x vectors of output places. */
export interface ConvolutionTile {
  readonly name: string;
  readonly channels: number;
  readonly vectors: number;
  readonly requires?: keyof Features;
}

/**
 * For many channels per group, the first one that the engine can run (see the variants of gemm: 12
 * sums, 2 vectors and 1 factor are all registers; without a fused multiply-add one more is needed, and
 * Node 20 loads ahead of what it uses), and for few channels, of which depthwise has one.
 */
export const wideTile: ConvolutionTile = { name: "1x32", channels: 1, vectors: 8 };
export const tallTiles: readonly ConvolutionTile[] = [
  { name: "6x8_fma", channels: 6, vectors: 2, requires: "relaxedSimd" },
  { name: "4x8", channels: 4, vectors: 2 },
];

const parameterTypes = {
  input: "i32",
  /** f32, in panels: [group][panel][depth][channels of the tile]. */
  filter: "i32",
  /** 0: none. */
  bias: "i32",
  output: "i32",
  inChannels: "i32",
  height: "i32",
  width: "i32",
  outChannels: "i32",
  outHeight: "i32",
  outWidth: "i32",
  kernelHeight: "i32",
  kernelWidth: "i32",
  strideY: "i32",
  strideX: "i32",
  top: "i32",
  left: "i32",
  dilationY: "i32",
  dilationX: "i32",
  groups: "i32",
  groupInChannels: "i32",
  groupOutChannels: "i32",
  /** Bytes of the filter panels of one group. */
  groupFilterBytes: "i32",
  /** Input channels whose planes exist at a time. */
  depthChannels: "i32",
  /** A chunk's share of one group and one image: output channels, rows and columns. */
  channelBlock: "i32",
  rowBlock: "i32",
  columnBlock: "i32",
  channelBlocks: "i32",
  rowBlocks: "i32",
  columnBlocks: "i32",
  /** Elements from row to row, those of padding that a row shares with the next one, and bytes from phase to phase. */
  pitch: "i32",
  sharedPadding: "i32",
  phaseBytes: "i32",
  /** Bytes of sums from channel to channel. */
  sumsBytes: "i32",
  /** Address of the first worker's workspace, bytes to the next one's, offsets within it. */
  workspace: "i32",
  workspaceBytes: "i32",
  planes: "i32",
  sums: "i32",
} as const;

export type PlanesTypes = typeof parameterTypes;

type Parameters = { readonly [Name in keyof PlanesTypes]: Local<"i32"> };

/** What a chunk works on. */
interface Block {
  readonly parameters: Parameters;
  /** The first output row and column, and how many. */
  readonly y: Local<"i32">;
  readonly x: Local<"i32">;
  readonly rows: Local<"i32">;
  readonly columns: Local<"i32">;
  /** Phases that the kernel reaches: all, or fewer where steps are longer than it. */
  readonly phasesY: Local<"i32">;
  readonly phasesX: Local<"i32">;
  /** Bytes of one row, of one input channel. */
  readonly rowBytes: Local<"i32">;
  readonly planeBytes: Local<"i32">;
}

/**
 * Convolution without patches. The part of the input that a block of output meets is copied once, with
 * its padding, into planes; there the value that the filter element (c, i, j) meets at output place
 * (y, x) lies at a distance from that of (c, 0, 0) that is the same for all places. So the block is one
 * row of places, `pitch` elements for each row of the output, and
 *
 *   sums[channel][place] += filter[channel][t] * planes[place + distance[t]]
 *
 * is a matrix product whose second operand is never formed. Places between the end of one row and the
 * beginning of the next hold nothing of use.
 *
 * With a stride, elements that are `stride` apart become neighbours: a plane has a phase for each
 * remainder of the row and of the column.
 */
export function planesKernel(tile: ConvolutionTile, dtype: DType): Kernel<PlanesTypes> {
  return defineKernel({
    name: `conv2d_planes_${dtype}_${tile.name}`,
    parameters: parameterTypes,
    ...(tile.requires === undefined ? {} : { requires: tile.requires }),
    emit(f, { parameters, chunk, worker }) {
      const { columnBlocks, rowBlocks, channelBlocks, groups, channelBlock, rowBlock, columnBlock } =
        parameters;
      const { groupInChannels, groupOutChannels, pitch, phaseBytes, strideX, strideY } = parameters;
      const elements = elementsOf(f, dtype);

      const rest = f.let(chunk);
      const next = (extent: Local<"i32">): Local<"i32"> => {
        const index = f.let(i32.remU(rest, extent));
        f.set(rest, i32.divU(rest, extent));
        return index;
      };
      const x = f.let(i32.mul(next(columnBlocks), columnBlock));
      const y = f.let(i32.mul(next(rowBlocks), rowBlock));
      const channel = f.let(i32.mul(next(channelBlocks), channelBlock));
      const group = next(groups);
      const batch = rest;
      const channels = f.let(i32.minU(i32.sub(groupOutChannels, channel), channelBlock));
      const reach = (stride: Local<"i32">, kernel: Local<"i32">, dilation: Local<"i32">): Local<"i32"> =>
        f.let(i32.minU(stride, i32.add(i32.mul(i32.sub(kernel, 1), dilation), 1)));
      const block: Block = {
        ...{ parameters, x, y },
        rows: f.let(i32.minU(i32.sub(parameters.outHeight, y), rowBlock)),
        columns: f.let(i32.minU(i32.sub(parameters.outWidth, x), columnBlock)),
        phasesY: reach(strideY, parameters.kernelHeight, parameters.dilationY),
        phasesX: reach(strideX, parameters.kernelWidth, parameters.dilationX),
        rowBytes: f.let(i32.shl(pitch, 2)),
        planeBytes: f.let(i32.mul(i32.mul(strideX, strideY), phaseBytes)),
      };

      const distances = f.let(i32.add(parameters.workspace, i32.mul(worker, parameters.workspaceBytes)));
      const planes = f.let(i32.add(distances, parameters.planes));
      const sums = f.let(i32.add(distances, parameters.sums));
      const places = i32.add(i32.mul(i32.sub(block.rows, 1), pitch), block.columns);
      const tilePlaces = 4 * tile.vectors;
      const placeBytes = f.let(i32.shl(i32.and(i32.add(places, tilePlaces - 1), -tilePlaces), 2));
      const taps = f.let(i32.mul(parameters.kernelHeight, parameters.kernelWidth));
      const tapBytes = 4 * tile.channels;
      const panelBytes = f.let(i32.mul(i32.mul(groupInChannels, taps), tapBytes));
      const firstPanel = f.let(
        i32.add(
          i32.add(parameters.filter, i32.mul(group, parameters.groupFilterBytes)),
          i32.mul(i32.divU(channel, tile.channels), panelBytes),
        ),
      );
      const inputPlane = i32.mul(parameters.height, i32.shl(parameters.width, elements.shift));
      const firstChannel = i32.add(i32.mul(batch, parameters.inChannels), i32.mul(group, groupInChannels));
      const source = f.let(i32.add(parameters.input, i32.mul(firstChannel, inputPlane)));

      emitDistances(f, block, distances);
      f.forRange(
        0,
        groupInChannels,
        (first) => {
          const count = f.let(i32.minU(i32.sub(groupInChannels, first), parameters.depthChannels));
          const to = f.let(planes);
          f.forRange(0, count, () => {
            emitPlane(f, elements, block, source, to);
            f.add(source, inputPlane);
            f.add(to, block.planeBytes);
          });
          const distancesEnd = f.let(i32.add(distances, i32.shl(i32.mul(count, taps), 2)));
          f.forRange(
            0,
            placeBytes,
            (place) => {
              const panel = f.let(firstPanel);
              const base = f.let(i32.add(planes, place));
              const sum = f.let(i32.add(sums, place));
              f.forRange(
                0,
                channels,
                (panelChannel) => {
                  const multiply = (channels: number): void => {
                    const parts = emitTile(f, tile, channels, { distances, distancesEnd, base, panel });
                    f.if(
                      first,
                      () => storeTile(f, parts, sum, parameters.sumsBytes, true),
                      () => storeTile(f, parts, sum, parameters.sumsBytes, false),
                    );
                  };
                  if (tile.channels > fewerChannels)
                    f.if(
                      i32.gtU(i32.sub(channels, panelChannel), fewerChannels),
                      () => multiply(tile.channels),
                      () => multiply(fewerChannels),
                    );
                  else multiply(tile.channels);
                  f.add(panel, panelBytes);
                  f.add(sum, i32.mul(parameters.sumsBytes, tile.channels));
                },
                { step: tile.channels },
              );
            },
            { step: 4 * tilePlaces },
          );
          f.add(firstPanel, i32.mul(i32.mul(count, taps), tapBytes));
        },
        { step: parameters.depthChannels },
      );

      const outChannel = f.let(i32.add(i32.mul(group, groupOutChannels), channel));
      const plane = i32.add(i32.mul(batch, parameters.outChannels), outChannel);
      emitOutput(f, elements, block, { plane, outChannel, channels, sums });
    },
  });
}

/** distances[c, i, j], in bytes. */
function emitDistances(f: FunctionBuilder, block: Block, distances: Local<"i32">): void {
  const { strideX, strideY, dilationX, dilationY, phaseBytes } = block.parameters;
  const to = f.let(distances);
  f.forRange(0, block.parameters.depthChannels, (c) => {
    f.forRange(0, block.parameters.kernelHeight, (i) => {
      const below = f.let(i32.mul(i, dilationY));
      const row = i32.mul(quotient(f, below, strideY), block.rowBytes);
      const start = f.let(i32.add(i32.mul(c, block.planeBytes), row));
      const phase = f.let(i32.mul(remainder(f, below, strideY), strideX));
      f.forRange(0, block.parameters.kernelWidth, (j) => {
        const beside = f.let(i32.mul(j, dilationX));
        const column = i32.shl(quotient(f, beside, strideX), 2);
        const phaseStart = i32.mul(i32.add(phase, remainder(f, beside, strideX)), phaseBytes);
        f.store(to, i32.add(start, i32.add(column, phaseStart)));
        f.add(to, 4);
      });
    });
  });
}

/**
 * Copies what the block meets of one input channel. Vectors may reach past the end of a row, by less than
 * 64 bytes: what follows is written later.
 */
function emitPlane(
  f: FunctionBuilder,
  elements: Elements,
  block: Block,
  source: Local<"i32">,
  plane: Local<"i32">,
): void {
  const { height, width, top, left, strideX, strideY, kernelHeight, dilationY, pitch, phaseBytes } =
    block.parameters;
  const { rowBytes } = block;
  const zero = f.let(f32x4.const(0));
  const to = f.local("i32");
  const from = f.local("i32");
  const zeros = (end: Local<"i32">): void => {
    f.forLocal(to, end, () => f.store(to, zero), { step: 16 });
    f.set(to, end);
  };
  const reach = i32.add(i32.mul(i32.sub(kernelHeight, 1), dilationY), 1);
  const rowsMet = f.let(i32.add(i32.mul(i32.sub(block.rows, 1), strideY), reach));
  const firstY = i32.sub(i32.mul(block.y, strideY), top);
  const firstX = i32.sub(i32.mul(block.x, strideX), left);
  const sourceBytes = f.let(i32.shl(width, elements.shift));
  f.forRange(0, block.phasesY, (phaseY) => {
    f.forRange(0, block.phasesX, (phaseX) => {
      // The element e of the phase is the input column e * strideX + shift: inside from `begin` to `until`.
      const shift = f.let(i32.add(firstX, phaseX));
      const begin = countBelow(f, i32.sub(0, shift), strideX, pitch);
      const until = countBelow(f, i32.sub(width, shift), strideX, pitch);
      const start = f.let(i32.add(plane, i32.mul(i32.add(i32.mul(phaseY, strideX), phaseX), phaseBytes)));
      const inputY = f.let(i32.add(firstY, phaseY));
      const inputX = i32.add(i32.mul(begin, strideX), shift);
      const firstSource = f.let(i32.add(source, i32.shl(inputX, elements.shift)));
      const row = f.let(phaseY);
      f.forLocal(
        row,
        rowsMet,
        () => {
          f.set(to, start);
          const end = f.let(i32.add(start, rowBytes));
          f.if(i32.and(i32.ltU(inputY, height), i32.gtS(until, begin)), () => {
            zeros(f.let(i32.add(start, i32.shl(begin, 2))));
            f.set(from, i32.add(firstSource, i32.mul(inputY, sourceBytes)));
            const copied = f.let(i32.add(start, i32.shl(until, 2)));
            copyEvery(f, elements, strideX, { from, to, end: copied });
            f.set(to, copied);
          });
          zeros(end);
          f.set(start, end);
          f.add(inputY, strideY);
        },
        { step: strideY },
      );
      // To the last row its right padding; to the others it is the left padding of the next one.
      f.set(to, start);
      zeros(f.let(i32.add(start, i32.shl(block.parameters.sharedPadding, 2))));
    });
  });
}

/** How many of the numbers 0, step, 2 step, ... are below `limit` (signed), at most `most`. */
function countBelow(
  f: FunctionBuilder,
  limit: Value<"i32">,
  step: Local<"i32">,
  most: Local<"i32">,
): Local<"i32"> {
  const rounded = f.let(i32.add(i32.maxS(limit, 0), i32.sub(step, 1)));
  return f.let(i32.minU(quotient(f, rounded, step), most));
}

/** a / b and a % b; b is a stride, mostly 1, and a branch is cheaper than a division. */
function quotient(f: FunctionBuilder, a: Local<"i32">, b: Local<"i32">): Local<"i32"> {
  const result = f.let(a);
  f.if(i32.ne(b, 1), () => f.set(result, i32.divU(a, b)));
  return result;
}

function remainder(f: FunctionBuilder, a: Local<"i32">, b: Local<"i32">): Local<"i32"> {
  const result = f.let(i32.const(0));
  f.if(i32.ne(b, 1), () => f.set(result, i32.remU(a, b)));
  return result;
}

/** Copies every `stride`th element from one place on until the copies reach `end`. */
function copyEvery(
  f: FunctionBuilder,
  elements: Elements,
  stride: Local<"i32">,
  { from, to, end }: Readonly<Record<"from" | "to" | "end", Local<"i32">>>,
): void {
  const vectors = (count: number, stride: number, vector: (offset: number) => Value<"v128">): void =>
    f.forLocal(
      to,
      end,
      () => {
        for (let i = 0; i < count; i++) f.store(to, vector(4 * stride * i * elements.bytes), 16 * i);
        f.add(from, 4 * stride * count * elements.bytes);
      },
      { step: 16 * count },
    );
  const pairs = (offset: number): Value<"v128"> => {
    const low = f.let(elements.load(from, offset));
    const high = f.let(elements.load(from, offset + 4 * elements.bytes));
    return shuffle32([0, 2, 4, 6], low, high);
  };
  const single = (): void => {
    const step = f.let(i32.shl(stride, elements.shift));
    f.forLocal(
      to,
      end,
      () => {
        f.storeLane(32, 0, to, elements.loadSplat(from));
        f.add(from, step);
      },
      { step: 4 },
    );
  };
  f.if(
    i32.eq(stride, 1),
    () => vectors(4, 1, (offset) => elements.load(from, offset)),
    () => f.if(i32.eq(stride, 2), () => vectors(2, 2, pairs), single),
  );
}

/** What is computed of the last panel where no more channels than these are left in it. */
const fewerChannels = 4;

/** The products of one tile, or of its first channels; all filter elements of the block of input channels. */
function emitTile(
  f: FunctionBuilder,
  tile: ConvolutionTile,
  channels: number,
  at: Readonly<Record<"distances" | "distancesEnd" | "base" | "panel", Local<"i32">>>,
): readonly (readonly Local<"v128">[])[] {
  const zero = f.let(f32x4.const(0));
  const sums = Array.from({ length: channels }, () =>
    Array.from({ length: tile.vectors }, () => f.let(zero)),
  );
  const factors = f.let(at.panel);
  f.forRange(
    at.distances,
    at.distancesEnd,
    (distance) => {
      const from = f.let(i32.add(at.base, i32.load(distance)));
      // Vectors that several channels use are loaded once; with one channel the factor is what is shared.
      const vectors = Array.from({ length: tile.vectors }, (_, j) => v128.load(from, 16 * j));
      const shared = tile.channels > 1 ? vectors.map((vector) => f.let(vector)) : vectors;
      for (const [i, row] of sums.entries()) {
        const factor = f.let(v128.load32Splat(factors, 4 * i));
        for (const [j, sum] of row.entries()) f.set(sum, f.multiplyAdd(factor, shared[j]!, sum));
      }
      f.add(factors, 4 * tile.channels);
    },
    { step: 4 },
  );
  return sums;
}

function storeTile(
  f: FunctionBuilder,
  parts: readonly (readonly Local<"v128">[])[],
  sums: Local<"i32">,
  sumsBytes: Local<"i32">,
  add: boolean,
): void {
  const to = f.let(sums);
  for (const row of parts) {
    for (const [j, part] of row.entries())
      f.store(to, add ? f32x4.add(v128.load(to, 16 * j), part) : part, 16 * j);
    f.add(to, sumsBytes);
  }
}

/** output = sums + bias, without the places between rows. */
function emitOutput(
  f: FunctionBuilder,
  elements: Elements,
  block: Block,
  of: {
    /** The first output channel, counted through the whole batch; and its bias. */
    readonly plane: Value<"i32">;
    readonly outChannel: Local<"i32">;
    readonly channels: Local<"i32">;
    readonly sums: Local<"i32">;
  },
): void {
  const { bias, outHeight, outWidth, sumsBytes } = block.parameters;
  const float32 = elementsOf(f, "f32");
  const biases = f.let(f32x4.const(0));
  const biasAt = f.let(i32.add(bias, i32.shl(of.outChannel, elements.shift)));
  const outRow = f.let(i32.mul(of.plane, outHeight));
  const channelSums = f.let(of.sums);
  f.forRange(0, of.channels, () => {
    f.if(bias, () => f.set(biases, elements.loadSplat(biasAt)));
    const rowSums = f.let(channelSums);
    f.forRange(0, block.rows, (row) => {
      const first = i32.mul(i32.add(outRow, i32.add(block.y, row)), outWidth);
      const output = i32.add(block.parameters.output, i32.shl(i32.add(first, block.x), elements.shift));
      mapVectors(f, {
        count: block.columns,
        inputs: [{ at: f.let(rowSums), elements: float32 }, biases],
        output: { at: f.let(output), elements },
        compute: (sum, addend) => f32x4.add(sum!, addend!),
        unroll: 4,
      });
      f.add(rowSums, block.rowBytes);
    });
    f.add(channelSums, sumsBytes);
    f.add(outRow, outHeight);
    f.add(biasAt, elements.bytes);
  });
}

const packTypes = {
  filter: "i32",
  packed: "i32",
  groupOutChannels: "i32",
  depth: "i32",
  groupFilterBytes: "i32",
  /** Panels of one group. */
  panels: "i32",
} as const;

export type PackFilterTypes = typeof packTypes;

/** Filter panels for a tile: packed[group][panel][t][channel] = filter[group][panel * channels + channel][t]. */
export function packFilterKernel(tile: ConvolutionTile, dtype: DType): Kernel<PackFilterTypes> {
  const bytes = dtype === "f32" ? 4 : 2;
  return defineKernel({
    name: `conv2d_pack_${dtype}_${tile.name}`,
    parameters: packTypes,
    ...(tile.requires === undefined ? {} : { requires: tile.requires }),
    emit(f, { parameters, chunk, module }) {
      const { groupOutChannels, depth, panels } = parameters;
      const group = f.let(i32.divU(chunk, panels));
      const panel = f.let(i32.remU(chunk, panels));
      const channel = f.let(i32.mul(panel, tile.channels));
      const row = i32.add(i32.mul(group, groupOutChannels), channel);
      const panelStart = i32.mul(i32.mul(panel, depth), 4 * tile.channels);
      f.call(
        packFunction(module, dtype, tile.channels),
        i32.add(parameters.filter, i32.mul(i32.mul(row, depth), bytes)),
        i32.mul(depth, bytes),
        i32.minU(i32.sub(groupOutChannels, channel), tile.channels),
        depth,
        i32.add(i32.add(parameters.packed, i32.mul(group, parameters.groupFilterBytes)), panelStart),
        1,
      );
    },
  });
}
