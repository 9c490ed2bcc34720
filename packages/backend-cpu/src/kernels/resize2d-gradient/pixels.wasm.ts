import type { FloatType, Resize2dKind } from "@backplane/core";
import { f32, f32x4, i32 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import {
  chunkPixels,
  forChannels,
  type PixelName,
  pixelTypes,
  type ResizingName,
  resizedAxes,
  resizingTypes,
  type StoreVectors,
} from "../images/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { resultsAlong } from "./results.js";

export type PixelsTypes = Readonly<
  Record<"outputGradient" | "inputGradient" | ResizingName | PixelName, "i32">
>;

const pixelsTypes: PixelsTypes = {
  outputGradient: "i32",
  inputGradient: "i32",
  ...resizingTypes,
  /** Of pixels of the input. */
  ...pixelTypes,
};

/**
 * Channels of pixels, in vectors: each pixel of the input adds up the gradients of the results that are made of it, row by row.
 * Chunk: `pixelsPerChunk` pixels. It takes any problem; of those without channels, it does one element at a time.
 */
export function pixelsKernel(kind: Resize2dKind, dtype: FloatType): Kernel<PixelsTypes> {
  return defineKernel<PixelsTypes>({
    name: `resize_gradient_${kind}_pixels_${dtype}`,
    parameters: pixelsTypes,
    emit(f, { parameters: p, chunk }) {
      const elements = elementsOf(f, dtype);
      const { shift } = elements;
      const axes = resizedAxes(p);
      const [rows, columns] = [resultsAlong(f, kind, axes.y), resultsAlong(f, kind, axes.x)];
      const work = chunkPixels(f, p, chunk, p.height, p.width);
      const { pixel, plane, y, x } = work;
      const to = f.let(i32.add(p.inputGradient, i32.shl(i32.mul(pixel, p.inner), shift)));
      const pixelBytes = f.let(i32.shl(p.inner, shift));
      const channel = f.local("i32");
      const [v, u, at] = [f.local("i32"), f.local("i32"), f.local("i32")];

      /** The sums of as many vectors of channels from `channel` on. */
      const sumsOf = (vectors: number, store: StoreVectors): void => {
        const sums = Array.from({ length: vectors }, () => f.let(f32x4.const(0)));
        f.set(v, rows.first);
        f.forLocal(v, rows.end, () => {
          const line = i32.mul(i32.add(i32.mul(plane, p.outHeight), v), p.outWidth);
          const index = i32.add(i32.mul(i32.add(line, columns.first), p.inner), channel);
          f.set(at, i32.add(p.outputGradient, i32.shl(index, shift)));
          const rowFactor = f.let(rows.factorOf(v, y));
          f.set(u, columns.first);
          f.forLocal(u, columns.end, () => {
            const factor =
              kind === "nearest" ? undefined : f.let(f32x4.splat(f32.mul(rowFactor, columns.factorOf(u, x))));
            for (const [i, sum] of sums.entries()) {
              const gradient = elements.load(at, 4 * i * elements.bytes);
              f.set(
                sum,
                factor === undefined ? f32x4.add(sum, gradient) : f.multiplyAdd(gradient, factor, sum),
              );
            }
            f.add(at, pixelBytes);
          });
        });
        store(elements, to, sums);
        f.add(to, 4 * vectors * elements.bytes);
      };

      work.forPixels(
        () => rows.set(y),
        () => {
          columns.set(x);
          forChannels(f, p.inner, channel, sumsOf, (passed) =>
            f.set(to, i32.sub(to, i32.shl(passed, shift))),
          );
        },
      );
    },
  });
}
