import type { FloatType, Resize2dKind } from "@backplane/core";
import { f32, f32x4, i32, type Local } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { resultsAlong } from "./results.js";

const pixelsTypes = {
  outputGradient: "i32",
  inputGradient: "i32",
  /** Pixels of all images of the input. */
  pixels: "i32",
  height: "i32",
  width: "i32",
  inner: "i32",
  outHeight: "i32",
  outWidth: "i32",
  factorY: "i32",
  shiftY: "i32",
  divisorY: "i32",
  factorX: "i32",
  shiftX: "i32",
  divisorX: "i32",
  pixelsPerChunk: "i32",
} as const;

export type PixelsTypes = typeof pixelsTypes;

/** Vectors of channels that are in registers together. */
const blockVectors = 4;

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
      const rows = resultsAlong(f, kind, {
        ...{ size: p.height, extent: p.outHeight, factor: p.factorY, shift: p.shiftY, divisor: p.divisorY },
      });
      const columns = resultsAlong(f, kind, {
        ...{ size: p.width, extent: p.outWidth, factor: p.factorX, shift: p.shiftX, divisor: p.divisorX },
      });
      const pixel = f.let(i32.mul(chunk, p.pixelsPerChunk));
      const end = f.let(i32.add(pixel, i32.minU(p.pixelsPerChunk, i32.sub(p.pixels, pixel))));
      const row = f.let(i32.divU(pixel, p.width));
      const x = f.let(i32.sub(pixel, i32.mul(row, p.width)));
      const plane = f.let(i32.divU(row, p.height));
      const y = f.let(i32.sub(row, i32.mul(plane, p.height)));
      const to = f.let(i32.add(p.inputGradient, i32.shl(i32.mul(pixel, p.inner), shift)));
      const pixelBytes = f.let(i32.shl(p.inner, shift));
      const channel = f.local("i32");
      const [v, u, at] = [f.local("i32"), f.local("i32"), f.local("i32")];

      /** The sums of as many vectors of channels from `channel` on, of which `rest` are left. */
      const sumsOf = (vectors: number, rest: Local<"i32"> | undefined): void => {
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
        for (const [i, sum] of sums.entries()) {
          if (rest === undefined) elements.store(to, sum, 4 * i * elements.bytes);
          else
            f.if(
              i32.geU(rest, 4),
              () => elements.store(to, sum),
              () => elements.storeFirst(to, sum, rest),
            );
        }
        f.add(to, 4 * vectors * elements.bytes);
        f.add(channel, 4 * vectors);
      };

      rows.set(y);
      f.forLocal(pixel, end, () => {
        columns.set(x);
        f.set(channel, 0);
        const rest = f.let(p.inner);
        f.while(i32.geU(rest, 4 * blockVectors), () => {
          sumsOf(blockVectors, undefined);
          f.add(rest, -4 * blockVectors);
        });
        f.while(i32.gtS(rest, 0), () => {
          sumsOf(1, rest);
          f.add(rest, -4);
        });
        // The last vector may have gone past the pixel.
        f.set(to, i32.sub(to, i32.shl(i32.sub(channel, p.inner), shift)));
        f.add(x, 1);
        f.if(i32.eq(x, p.width), () => {
          f.set(x, 0);
          f.add(y, 1);
          f.if(i32.eq(y, p.height), () => {
            f.set(y, 0);
            f.add(plane, 1);
          });
          rows.set(y);
        });
      });
    },
  });
}
