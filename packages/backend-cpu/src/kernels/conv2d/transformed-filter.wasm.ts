import type { ConvolutionTile } from "@backplane/core";
import { type FunctionReference, i32, type Local, type ModuleBuilder, v128 } from "../../wasm/index.js";
import type { Tile } from "../gemm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { packFunction } from "../panels/index.js";
import { tileColumns } from "../tile/index.js";
import { transforms } from "./transforms.js";
import { windowsTile } from "./windows.wasm.js";

/** Places of a filter along each axis, and of both. */
const extent = 3;
export const transformedTaps: number = extent ** 2;
const taps = transformedTaps;

/** Input channels whose filters are packed, and then transformed, together. */
const packedChannels = 32;
export const packedFilterBytes: number = 4 * tileColumns * packedChannels * taps;

/**
 * Transforms the filters from `lines` output channels and `channels` input channels. `filter` is the first of them, and
 * `lineBytes` is from output channel to output channel.
 *
 *   to[point][panel][input channel][output channels of the panel]
 *
 * `panelBytes` apart and `pointBytes` apart. `packed` is room for `packedFilterBytes`.
 */
export function transformFilterFunction(
  module: ModuleBuilder,
  tile: ConvolutionTile,
  { rows }: Tile,
): FunctionReference {
  const { points, filter: transformFilter } = transforms[tile];
  const pack = packFunction(module, "f32", rows);
  return module.shared(`conv2d_transform_filter_${tile}_${rows}`, (name) =>
    module.function(
      name,
      {
        ...({ filter: "i32", lineBytes: "i32", lines: "i32", channels: "i32" } as const),
        ...({ to: "i32", panelBytes: "i32", pointBytes: "i32", packed: "i32" } as const),
      },
      (f, { filter, lineBytes, lines, channels, to, panelBytes, pointBytes, packed }) => {
        const transform = transformFilter(f);
        // The vectors of a row of six overlap.
        const vectors = rows === 4 ? [0] : [0, 4 * rows - 16];
        const transformChannel = (from: Local<"i32">, channelTo: Local<"i32">): void => {
          for (const at of vectors) {
            const columns = Array.from({ length: extent }, (_, j) => {
              const column = Array.from({ length: extent }, (_, i) =>
                f.let(v128.load(from, 4 * rows * (extent * i + j) + at)),
              );
              return transform(column).map((value) => f.let(value));
            });
            const target = f.let(channelTo);
            for (let i = 0; i < points; i++)
              for (const value of transform(columns.map((column) => column[i]!))) {
                f.store(target, value, at);
                f.add(target, pointBytes);
              }
          }
        };
        f.forRange(
          0,
          lines,
          (line) => {
            const count = f.let(i32.minU(i32.sub(lines, line), rows));
            const panel = f.let(to);
            const source = f.let(filter);
            f.forRange(
              0,
              channels,
              (channel) => {
                const together = f.let(i32.minU(i32.sub(channels, channel), packedChannels));
                f.call(pack, source, lineBytes, count, i32.mul(together, taps), packed, 1, 0);
                const from = f.let(packed);
                f.forRange(0, together, () => {
                  transformChannel(from, panel);
                  f.add(from, 4 * rows * taps);
                  f.add(panel, 4 * rows);
                });
                f.add(source, 4 * taps * packedChannels);
              },
              { step: packedChannels },
            );
            f.add(filter, i32.mul(lineBytes, rows));
            f.add(to, panelBytes);
          },
          { step: rows },
        );
      },
    ),
  );
}

/** Input channels of a chunk of `transformFilterKernel`. */
export const filterChannels = 128;

const filterTypes = {
  filter: "i32",
  /** [point][panel][input channel][output channels of the panel] */
  transformed: "i32",
  inChannels: "i32",
  outChannels: "i32",
  /** Parts of the input channels of a panel. */
  parts: "i32",
  /** Bytes from panel to panel, and from point to point. */
  panelBytes: "i32",
  pointBytes: "i32",
} as const;

export type TransformFilterTypes = typeof filterTypes;

/** Transforms the filters of some output channels, a panel, and some input channels. */
export function transformFilterKernel(tile: ConvolutionTile): Kernel<TransformFilterTypes> {
  return defineKernel({
    name: `conv2d_transform_filter_${tile}_f32`,
    parameters: filterTypes,
    scratchBytes: packedFilterBytes,
    emit(f, { parameters, chunk, scratch, module, features }) {
      const { filter, transformed, inChannels, outChannels, parts, panelBytes, pointBytes } = parameters;
      const product = windowsTile(features);
      const panel = f.let(i32.divU(chunk, parts));
      const first = f.let(i32.mul(i32.remU(chunk, parts), filterChannels));
      const outChannel = f.let(i32.mul(panel, product.rows));
      const lineBytes = f.let(i32.mul(inChannels, 4 * taps));
      f.call(
        transformFilterFunction(module, tile, product),
        i32.add(filter, i32.add(i32.mul(outChannel, lineBytes), i32.mul(first, 4 * taps))),
        lineBytes,
        i32.minU(i32.sub(outChannels, outChannel), product.rows),
        i32.minU(i32.sub(inChannels, first), filterChannels),
        i32.add(transformed, i32.add(i32.mul(panel, panelBytes), i32.mul(first, 4 * product.rows))),
        panelBytes,
        pointBytes,
        scratch,
      );
    },
  });
}
