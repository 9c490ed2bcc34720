import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32, type Local, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel, type ParameterLocals } from "../kernel.js";
import { mapVectors } from "../vector/index.js";
import { blended, blendLocals, placesAlong, setBlend } from "./places.js";

const pixelsTypes = {
  input: "i32",
  output: "i32",
  /** Output pixels of all images. */
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

/** Calls `body` for each pixel of a chunk of the output, after its places are set. */
function forPixels(
  f: FunctionBuilder,
  p: ParameterLocals<PixelsTypes>,
  chunk: Local<"i32">,
  shift: number,
  body: (
    to: Local<"i32">,
    at: (line: Local<"i32">, column: Local<"i32">) => Local<"i32">,
    y: ReturnType<typeof placesAlong>["place"],
    x: ReturnType<typeof placesAlong>["place"],
  ) => void,
): void {
  const rows = placesAlong(f, {
    ...{ size: p.height, factor: p.factorY, shift: p.shiftY, divisor: p.divisorY },
  });
  const columns = placesAlong(f, {
    ...{ size: p.width, factor: p.factorX, shift: p.shiftX, divisor: p.divisorX },
  });
  const pixel = f.let(i32.mul(chunk, p.pixelsPerChunk));
  const end = f.let(i32.add(pixel, i32.minU(p.pixelsPerChunk, i32.sub(p.pixels, pixel))));
  const row = f.let(i32.divU(pixel, p.outWidth));
  const x = f.let(i32.sub(pixel, i32.mul(row, p.outWidth)));
  const plane = f.let(i32.divU(row, p.outHeight));
  const y = f.let(i32.sub(row, i32.mul(plane, p.outHeight)));
  const pixelBytes = f.let(i32.shl(p.inner, shift));
  const to = f.let(i32.add(p.output, i32.mul(pixel, pixelBytes)));
  rows.set(y);
  f.forLocal(pixel, end, () => {
    columns.set(x);
    const at = (line: Local<"i32">, column: Local<"i32">) => {
      const place = i32.add(i32.mul(i32.add(i32.mul(plane, p.height), line), p.width), column);
      return f.let(i32.add(p.input, i32.mul(place, pixelBytes)));
    };
    body(to, at, rows.place, columns.place);
    f.add(to, pixelBytes);
    f.add(x, 1);
    f.if(i32.eq(x, p.outWidth), () => {
      f.set(x, 0);
      f.add(y, 1);
      f.if(i32.eq(y, p.outHeight), () => {
        f.set(y, 0);
        f.add(plane, 1);
      });
      rows.set(y);
    });
  });
}

/** Images with channels between, bilinear. Chunk: `pixelsPerChunk` pixels of the output. */
export function bilinearPixelsKernel(dtype: FloatType): Kernel<PixelsTypes> {
  return defineKernel<PixelsTypes>({
    name: `resize_bilinear_pixels_${dtype}`,
    parameters: pixelsTypes,
    emit(f, { parameters, chunk }) {
      const elements = elementsOf(f, dtype);
      const [rows, columns] = [blendLocals(f), blendLocals(f)];
      forPixels(f, parameters, chunk, elements.shift, (to, at, y, x) => {
        setBlend(f, rows, f32x4.splat(y.weight));
        setBlend(f, columns, f32x4.splat(x.weight));
        const corners = [
          at(y.lower, x.lower),
          at(y.lower, x.upper),
          at(y.upper, x.lower),
          at(y.upper, x.upper),
        ];
        mapVectors(f, {
          count: parameters.inner,
          inputs: corners.map((corner) => ({ at: corner, elements })),
          output: { at: f.let(to), elements },
          compute: (a, b, c, d) =>
            blended(rows, f.let(blended(columns, a!, b!)), f.let(blended(columns, c!, d!))),
          unroll: 1,
        });
      });
    },
  });
}

/** The same for the nearest pixels, of elements of 4 bytes, 2 or 1. */
export function nearestPixelsKernel(bytes: 1 | 2 | 4): Kernel<PixelsTypes> {
  return defineKernel<PixelsTypes>({
    name: `resize_nearest_pixels_${bytes}`,
    parameters: pixelsTypes,
    emit(f, { parameters, chunk }) {
      const shift = Math.log2(bytes);
      const rest = f.local("i32");
      const target = f.local("i32");
      const move = (size: 1 | 2 | 4 | 16, from: Local<"i32">) => {
        if (size === 16) f.store(target, v128.load(from));
        else if (size === 4) f.store(target, i32.load(from));
        else if (size === 2) f.store16(target, i32.load16U(from));
        else f.store8(target, i32.load8U(from));
        f.add(from, size);
        f.add(target, size);
        f.add(rest, -size);
      };
      forPixels(f, parameters, chunk, shift, (to, at, y, x) => {
        const from = at(y.lower, x.lower);
        f.set(target, to);
        f.set(rest, i32.shl(parameters.inner, shift));
        f.while(i32.geU(rest, 16), () => move(16, from));
        f.while(i32.geU(rest, 4), () => move(4, from));
        if (bytes < 4) f.while(i32.gtU(rest, 0), () => move(bytes, from));
      });
    },
  });
}
