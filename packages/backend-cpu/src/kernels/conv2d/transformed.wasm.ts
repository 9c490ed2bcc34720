import type { ConvolutionTile } from "@backplane/core";
import { i32, select } from "../../wasm/index.js";
import { blockFunction } from "../gemm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { tileColumns } from "../tile/index.js";
import { packedFilterBytes, transformedTaps, transformFilterFunction } from "./transformed-filter.wasm.js";
import { emitOutputs, inputTransform } from "./transformed-images.js";
import { type TransformedTypes, transformedTypes } from "./transformed-types.js";
import { transforms } from "./transforms.js";
import { windowsTile } from "./windows.wasm.js";

const one = 0x3f800000;

/** Room for a tile at the edge of a product. */
const edgeBytes = 256;

/**
 * Convolution by 3x3 filters tile by tile, with transformed inputs and filters: see `EmittedTransform`. For each point of a tile the sums
 *
 *   sums[point][output channel][tile] = sum over channels of filter[point][output channel][channel] * inputs[point][channel][tile]
 *
 * are a matrix product. A chunk has some tiles, one after the other through all images, and some output channels. Lanes run along
 * the tiles.
 */
export function transformedKernel(tile: ConvolutionTile): Kernel<TransformedTypes> {
  const { points } = transforms[tile];
  return defineKernel({
    name: `conv2d_transformed_${tile}_f32`,
    parameters: transformedTypes,
    scratchBytes: edgeBytes + packedFilterBytes,
    emit(f, { parameters, chunk, scratch, worker, features, module }) {
      const { inChannels, outChannels, channelBlock, tileChunks, tilesPerChunk, depthChannels } = parameters;
      const product = windowsTile(features);
      const first = f.let(i32.mul(i32.remU(chunk, tileChunks), tilesPerChunk));
      const channel = f.let(i32.mul(i32.divU(chunk, tileChunks), channelBlock));
      const channels = f.let(i32.minU(i32.sub(outChannels, channel), channelBlock));
      const tiles = f.let(i32.minU(i32.sub(parameters.tiles, first), tilesPerChunk));
      const columns = f.let(i32.and(i32.add(tiles, tileColumns - 1), -tileColumns));
      const line = f.let(i32.add(parameters.rooms, i32.mul(worker, parameters.roomBytes)));
      const inputs = f.let(i32.add(line, parameters.inputs));
      const sums = f.let(i32.add(line, parameters.sums));
      const filters = f.let(i32.add(line, parameters.filters));
      const packed = f.let(i32.add(scratch, edgeBytes));
      const filterLine = f.let(i32.mul(inChannels, 4 * transformedTaps));
      const sumsStride = f.let(i32.shl(tilesPerChunk, 2));

      const transformInputs = inputTransform(f, tile, parameters, { first, tiles, columns, line, inputs });
      f.forRange(
        0,
        inChannels,
        (depth) => {
          const count = f.let(i32.minU(i32.sub(inChannels, depth), depthChannels));
          transformInputs(depth, count);
          // Nothing is there to be added to the first time.
          const beta = f.let(select(i32.const(one), i32.const(0), depth));
          f.forRange(
            0,
            channels,
            (block) => {
              const lines = f.let(i32.minU(i32.sub(channels, block), parameters.filterBlock));
              const outChannel = f.let(i32.add(channel, block));
              const factors = f.let(filters);
              const panelBytes = f.let(i32.mul(count, 4 * product.rows));
              f.if(
                parameters.ownFilters,
                () => {
                  const start = i32.add(i32.mul(outChannel, filterLine), i32.mul(depth, 4 * transformedTaps));
                  f.call(
                    transformFilterFunction(module, tile, product),
                    ...[i32.add(parameters.filter, start), filterLine, lines, count, factors],
                    ...[panelBytes, parameters.pointBytes, packed],
                  );
                },
                () => {
                  f.set(panelBytes, parameters.panelBytes);
                  const panel = i32.mul(i32.divU(outChannel, product.rows), panelBytes);
                  f.set(
                    factors,
                    i32.add(parameters.filter, i32.add(panel, i32.mul(depth, 4 * product.rows))),
                  );
                },
              );
              const columnsAt = f.let(inputs);
              const to = f.let(i32.add(sums, i32.mul(block, sumsStride)));
              f.forRange(0, points ** 2, () => {
                f.call(
                  blockFunction(module, product),
                  ...[factors, panelBytes, columnsAt, count, lines, columns, to, sumsStride],
                  ...[one, beta, scratch, 0],
                );
                f.add(factors, parameters.pointBytes);
                f.add(columnsAt, parameters.inputPointBytes);
                f.add(to, parameters.sumsPointBytes);
              });
            },
            { step: parameters.filterBlock },
          );
        },
        { step: depthChannels },
      );
      emitOutputs(f, module, tile, parameters, { first, tiles, sums, channel, channels });
    },
  });
}
