import { type FunctionBuilder, i32, type Local, v128 } from "../../wasm/index.js";
import {
  chunkPixels,
  type PixelName,
  pixelTypes,
  type ResizingName,
  resizedAxes,
  resizingTypes,
} from "../images/index.js";
import { defineKernel, type Kernel, type ParameterLocals } from "../kernel.js";
import { placesAlong } from "./places.js";

export type PixelsTypes = Readonly<Record<"input" | "output" | ResizingName | PixelName, "i32">>;

const pixelsTypes: PixelsTypes = {
  input: "i32",
  output: "i32",
  ...resizingTypes,
  /** Of pixels of the output. */
  ...pixelTypes,
};

/** Calls `body` with the places of each pixel of a chunk of the output and of its nearest one. */
function forPixels(
  f: FunctionBuilder,
  p: ParameterLocals<PixelsTypes>,
  chunk: Local<"i32">,
  shift: number,
  body: (to: Local<"i32">, from: Local<"i32">) => void,
): void {
  const axes = resizedAxes(p);
  const [rows, columns] = [placesAlong(f, axes.y), placesAlong(f, axes.x)];
  const work = chunkPixels(f, p, chunk, p.outHeight, p.outWidth);
  const { pixel, plane, y, x } = work;
  const pixelBytes = f.let(i32.shl(p.inner, shift));
  const to = f.let(i32.add(p.output, i32.mul(pixel, pixelBytes)));
  const line = f.local("i32");
  const from = f.local("i32");
  const setRow = () => {
    rows.set(y);
    const place = i32.mul(i32.add(i32.mul(plane, p.height), rows.place.lower), p.width);
    f.set(line, i32.add(p.input, i32.mul(place, pixelBytes)));
  };
  work.forPixels(setRow, () => {
    columns.set(x);
    f.set(from, i32.add(line, i32.mul(columns.place.lower, pixelBytes)));
    body(to, from);
    f.add(to, pixelBytes);
  });
}

/** The nearest pixels, of elements of 4 bytes, 2 or 1. Chunk: `pixelsPerChunk` pixels of the output. */
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
      forPixels(f, parameters, chunk, shift, (to, from) => {
        f.set(target, to);
        f.set(rest, i32.shl(parameters.inner, shift));
        f.while(i32.geU(rest, 16), () => move(16, from));
        f.while(i32.geU(rest, 4), () => move(4, from));
        if (bytes < 4) f.while(i32.gtU(rest, 0), () => move(bytes, from));
      });
    },
  });
}
