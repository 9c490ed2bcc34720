import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
import { epilogueFunction } from "../epilogue/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { emitSteps } from "../tile/index.js";
import { mapVectors } from "../vector/index.js";
import { type Block, direct, type PlanesTypes, planesTypes } from "./block.js";
import { emitDistances, emitPlane } from "./copy.wasm.js";
import { type ConvolutionForm, type ConvolutionTile, convolutionTile } from "./tile.js";

/**
 * Convolution without patches. The part of the input that a block of output uses is copied once, with its
 * padding, into planes. There, the value that the filter element (c, i, j) meets at output place (y, x) lies
 * at a distance from that of (c, 0, 0) that is the same for all places. So the block is one row of places,
 * `pitch` elements for each row of the output, and
 *
 *   sums[channel][place] += filter[channel][t] * planes[place + distance[t]]
 *
 * is a matrix product whose second operand is never formed. Places between the end of one row and the
 * beginning of the next hold garbage.
 *
 * With a stride, elements that are `stride` apart become neighbours: a plane has a phase for each remainder
 * of the row and of the column.
 */
export function planesKernel(form: ConvolutionForm, dtype: FloatType): Kernel<PlanesTypes> {
  return defineKernel({
    name: `conv2d_planes_${form}_${dtype}`,
    parameters: planesTypes,
    emit(f, { parameters, chunk, worker, features, module }) {
      const tile = convolutionTile(form, features);
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
      const places = f.let(i32.add(i32.mul(i32.sub(block.rows, 1), pitch), block.columns));
      const tilePlaces = 4 * tile.vectors;
      // Tiles go along lines of places: all of them, or row by row.
      const lines = f.let(i32.const(1));
      const lineBytes = f.let(i32.shl(places, 2));
      /** Of a line, those whose sums go to the output; the others go to `sums`. */
      const directBytes = f.let(i32.const(0));
      if (!elements.converted)
        f.if(parameters.direct, () => {
          f.set(directBytes, i32.and(lineBytes, -4 * tilePlaces));
          f.if(i32.eq(parameters.direct, direct.rows), () => {
            f.set(lines, block.rows);
            f.set(lineBytes, i32.shl(block.columns, 2));
            f.set(directBytes, lineBytes);
          });
        });
      const taps = f.let(i32.mul(parameters.kernelHeight, parameters.kernelWidth));
      const tapBytes = 4 * tile.channels;
      const panelBytes = f.let(i32.mul(i32.mul(groupInChannels, taps), tapBytes));
      emitDistances(f, block, distances);
      const outPlaneBytes = f.let(
        i32.shl(i32.mul(parameters.outHeight, parameters.outWidth), elements.shift),
      );
      const outRowBytes = f.let(i32.shl(parameters.outWidth, elements.shift));
      const firstPlace = f.let(i32.add(i32.mul(y, parameters.outWidth), x));
      const image = f.let(i32.mul(rest, parameters.imagesPerChunk));
      const imageEnd = f.let(
        i32.add(image, i32.minU(i32.sub(parameters.images, image), parameters.imagesPerChunk)),
      );
      f.forLocal(image, imageEnd, () => {
        const group = f.let(i32.remU(image, groups));
        const batch = f.let(i32.divU(image, groups));
        const firstPanel = f.let(
          i32.add(
            i32.add(parameters.filter, i32.mul(group, parameters.groupFilterBytes)),
            i32.mul(i32.divU(channel, tile.channels), panelBytes),
          ),
        );
        const inputPlane = i32.mul(parameters.height, i32.shl(parameters.width, elements.shift));
        const firstChannel = i32.add(i32.mul(batch, parameters.inChannels), i32.mul(group, groupInChannels));
        const source = f.let(i32.add(parameters.input, i32.mul(firstChannel, inputPlane)));
        const outChannel = f.let(i32.add(i32.mul(group, groupOutChannels), channel));
        const outPlane = f.let(i32.add(i32.mul(batch, parameters.outChannels), outChannel));
        const output = f.let(
          i32.add(
            i32.add(parameters.output, i32.mul(outPlane, outPlaneBytes)),
            i32.shl(firstPlace, elements.shift),
          ),
        );

        f.forRange(
          0,
          groupInChannels,
          (first) => {
            const count = f.let(i32.minU(i32.sub(groupInChannels, first), parameters.depthChannels));
            const met = f.let(planes);
            const copyPlanes = (): void => {
              const to = f.let(planes);
              f.forRange(0, count, () => {
                emitPlane(f, elements, block, source, to);
                f.add(source, inputPlane);
                f.add(to, block.planeBytes);
              });
            };
            if (elements.converted) copyPlanes();
            else
              f.if(
                parameters.inPlace,
                () => {
                  f.set(met, i32.add(source, i32.shl(firstPlace, 2)));
                  f.add(source, i32.mul(count, inputPlane));
                },
                copyPlanes,
              );
            const distancesEnd = f.let(i32.add(distances, i32.shl(i32.mul(count, taps), 2)));
            const line = f.let(met);
            const outputLine = f.let(output);
            f.forRange(0, lines, () => {
              f.forRange(
                0,
                lineBytes,
                (place) => {
                  const panel = f.let(firstPanel);
                  const base = f.let(i32.add(line, place));
                  const sum = f.let(i32.add(sums, place));
                  // Several channels at a time never reach past the end of a line in the output.
                  const lineLeft = tile.channels === 1 ? f.let(i32.sub(lineBytes, place)) : undefined;
                  const sumsStep = f.let(parameters.sumsBytes);
                  if (!elements.converted)
                    f.if(i32.ltU(place, directBytes), () => {
                      f.set(sum, i32.add(outputLine, place));
                      f.set(sumsStep, outPlaneBytes);
                    });
                  f.forRange(
                    0,
                    channels,
                    (panelChannel) => {
                      const left = f.let(i32.sub(channels, panelChannel));
                      const multiply = (channels: number, least: number): void => {
                        const parts = emitTile(f, tile, channels, { distances, distancesEnd, base, panel });
                        const store = (add: boolean): void => {
                          const at = { sum, sumsStep, left, least };
                          const whole = (): void => storeTile(f, parts, at, add);
                          if (lineLeft === undefined) whole();
                          else
                            f.if(i32.geU(lineLeft, 4 * tilePlaces), whole, () =>
                              storeTile(f, parts, { ...at, bytes: lineLeft }, add),
                            );
                        };
                        f.if(
                          first,
                          () => store(true),
                          () => store(false),
                        );
                      };
                      if (tile.channels > fewerChannels)
                        f.if(
                          i32.gtU(left, fewerChannels),
                          () => multiply(tile.channels, fewerChannels + 1),
                          () => multiply(fewerChannels, 1),
                        );
                      else multiply(tile.channels, 1);
                      f.add(panel, panelBytes);
                      f.add(sum, i32.mul(sumsStep, tile.channels));
                    },
                    { step: tile.channels },
                  );
                },
                { step: 4 * tilePlaces },
              );
              f.add(line, block.rowBytes);
              f.add(outputLine, outRowBytes);
            });
            f.add(firstPanel, i32.mul(i32.mul(count, taps), tapBytes));
          },
          { step: parameters.depthChannels },
        );

        if (!elements.converted)
          f.if(directBytes, () =>
            emitEpilogue(f, module, block, {
              ...{ output, outPlaneBytes, outRowBytes, outChannel, channels, lines, directBytes },
            }),
          );
        f.if(i32.ltU(directBytes, lineBytes), () => {
          emitOutput(f, elements, block, {
            plane: outPlane,
            outChannel,
            channels,
            sums,
            directBytes,
            spare: planes,
            module,
          });
        });
      });
    },
  });
}

/** If at most this many channels are left in the last panel, only these are computed. */
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
  const distance = f.let(at.distances);
  const addProducts = (number: number, separate: (channel: number) => void): void => {
    const from = f.let(i32.add(at.base, i32.load(distance, 4 * number)));
    // Vectors that several channels use are loaded once; with one channel, the factor is shared instead.
    const vectors = Array.from({ length: tile.vectors }, (_, j) => v128.load(from, 16 * j));
    const shared = tile.channels > 1 ? vectors.map((vector) => f.let(vector)) : vectors;
    for (const [i, row] of sums.entries()) {
      const factor = f.let(v128.load32Splat(factors, 4 * (number * tile.channels + i)));
      for (const [j, sum] of row.entries()) f.set(sum, f.multiplyAdd(factor, shared[j]!, sum));
      separate(i);
    }
  };
  const advance = (steps: number): void => {
    f.add(factors, 4 * tile.channels * steps);
    f.add(distance, 4 * steps);
  };
  const pairs =
    f.relaxedSimd && tile.channels > 1 ? i32.ltU(distance, f.let(i32.sub(at.distancesEnd, 4))) : undefined;
  emitSteps(f, { counter: distance, pairs, ones: i32.ltU(distance, at.distancesEnd) }, addProducts, advance);
  return sums;
}

/** Stores the sums of the channels that exist, or adds them to the stored ones. */
function storeTile(
  f: FunctionBuilder,
  parts: readonly (readonly Local<"v128">[])[],
  at: {
    readonly sum: Local<"i32">;
    /** Bytes from channel to channel. */
    readonly sumsStep: Local<"i32">;
    /** Channels that exist, at least `least`. */
    readonly left: Local<"i32">;
    readonly least: number;
    /** Bytes of the line from here on, if the tile is longer. */
    readonly bytes?: Local<"i32">;
  },
  add: boolean,
): void {
  const to = f.let(at.sum);
  f.block((done) => {
    for (const [i, row] of parts.entries()) {
      if (i >= at.least) f.brIf(done, i32.leU(at.left, i));
      for (const [j, part] of row.entries()) {
        if (at.bytes && j > 0) f.brIf(done, i32.leU(at.bytes, 16 * j));
        f.store(to, add ? f32x4.add(v128.load(to, 16 * j), part) : part, 16 * j);
      }
      f.add(to, at.sumsStep);
    }
  });
}

/** Applies bias and activation to sums that are in the output already. */
function emitEpilogue(
  f: FunctionBuilder,
  module: ModuleBuilder,
  block: Block,
  of: Readonly<
    Record<
      "output" | "outPlaneBytes" | "outRowBytes" | "outChannel" | "channels" | "lines" | "directBytes",
      Local<"i32">
    >
  >,
): void {
  const { bias, activation } = block.parameters;
  f.if(i32.or(bias, activation), () => {
    const row = f.let(of.output);
    const biasAt = f.let(bias);
    f.if(bias, () => f.add(biasAt, i32.shl(of.outChannel, 2)));
    const count = f.let(i32.shrU(of.directBytes, 2));
    f.forRange(0, of.channels, () => {
      f.call(epilogueFunction(module), row, of.outRowBytes, of.lines, count, biasAt, 0, activation);
      f.add(row, of.outPlaneBytes);
      f.if(bias, () => f.add(biasAt, 4));
    });
  });
}

/** output = sums + bias, without the places between rows and those whose sums are in the output already. */
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
    readonly directBytes: Local<"i32">;
    /** Room for 16 bytes. */
    readonly spare: Local<"i32">;
    readonly module: ModuleBuilder;
  },
): void {
  const { bias, activation, outHeight, outWidth, sumsBytes } = block.parameters;
  const float32 = elementsOf(f, "f32");
  // x + -0 is x, also for x = -0.
  const nothing = f.let(f32x4.const(-0));
  const biases = f.let(nothing);
  const biasAt = f.let(i32.add(bias, i32.shl(of.outChannel, elements.shift)));
  const outRow = f.let(i32.mul(of.plane, outHeight));
  // If some are in the output, no others lie between the places: they are one row.
  const directPlaces = f.let(i32.shrU(of.directBytes, 2));
  const rows = f.let(block.rows);
  const columns = f.let(block.columns);
  f.if(directPlaces, () => {
    f.set(columns, i32.sub(i32.mul(rows, columns), directPlaces));
    f.set(rows, 1);
  });
  const channelSums = f.let(i32.add(of.sums, of.directBytes));
  f.forRange(0, of.channels, () => {
    f.if(bias, () => f.set(biases, elements.loadSplat(biasAt)));
    f.if(activation, () => {
      // Compute all in f32 in the place of the sums, then write the output without adding anything.
      f.store(of.spare, biases);
      const epilogue = epilogueFunction(of.module);
      f.call(epilogue, channelSums, block.rowBytes, rows, columns, of.spare, 0, activation);
      f.set(biases, nothing);
    });
    const rowSums = f.let(channelSums);
    f.forRange(0, rows, (row) => {
      const first = i32.mul(i32.add(outRow, i32.add(block.y, row)), outWidth);
      const place = i32.add(first, i32.add(block.x, directPlaces));
      const output = i32.add(block.parameters.output, i32.shl(place, elements.shift));
      mapVectors(f, {
        count: columns,
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
