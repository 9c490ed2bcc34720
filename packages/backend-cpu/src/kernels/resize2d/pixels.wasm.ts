import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, f32, f32x4, i32, type Local, type Value, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import {
  chunkPixels,
  type PixelName,
  pixelTypes,
  type ResizingName,
  resizedAxes,
  resizingTypes,
} from "../images/index.js";
import { defineKernel, type Kernel, type ParameterLocals } from "../kernel.js";
import { mapToVectors, mapVectors } from "../vector/index.js";
import { blending, type PlaceLocals, placesAlong } from "./places.js";

export type PixelsTypes = Readonly<Record<"input" | "output" | ResizingName | PixelName, "i32">>;

const pixelsTypes: PixelsTypes = {
  input: "i32",
  output: "i32",
  ...resizingTypes,
  /** Of pixels of the output. */
  ...pixelTypes,
};

interface PixelLocals {
  /** Of the output. */
  readonly to: Local<"i32">;
  /** Between which rows and columns it is. */
  readonly y: PlaceLocals;
  readonly x: PlaceLocals;
  /** Of the pixels of the input in these rows and in the lower column. */
  readonly atLower: Local<"i32">;
  readonly atUpper: Local<"i32">;
  readonly pixelBytes: Local<"i32">;
  /** Sets a place to that of the next column, and returns whether there is one in the row and in the chunk. */
  readonly setNext: (next: ReturnType<typeof placesAlong>) => Value<"i32">;
  /** Goes on to the next pixel of the row. */
  readonly skip: () => void;
}

/** Calls `body` for each pixel of a chunk of the output, after its places are set. */
function forPixels(
  f: FunctionBuilder,
  p: ParameterLocals<PixelsTypes>,
  chunk: Local<"i32">,
  shift: number,
  body: (pixel: PixelLocals) => void,
): void {
  const axes = resizedAxes(p);
  const [rows, columns] = [placesAlong(f, axes.y), placesAlong(f, axes.x)];
  const work = chunkPixels(f, p, chunk, p.outHeight, p.outWidth);
  const { pixel, end, plane, y, x } = work;
  const pixelBytes = f.let(i32.shl(p.inner, shift));
  const to = f.let(i32.add(p.output, i32.mul(pixel, pixelBytes)));
  const [lowerLine, upperLine] = [f.local("i32"), f.local("i32")];
  const setRows = () => {
    rows.set(y);
    const lineAt = (line: Local<"i32">) => {
      const place = i32.mul(i32.add(i32.mul(plane, p.height), line), p.width);
      return i32.add(p.input, i32.mul(place, pixelBytes));
    };
    f.set(lowerLine, lineAt(rows.place.lower));
    f.set(upperLine, lineAt(rows.place.upper));
  };
  const [atLower, atUpper] = [f.local("i32"), f.local("i32")];
  work.forPixels(setRows, () => {
    columns.set(x);
    const distance = f.let(i32.mul(columns.place.lower, pixelBytes));
    f.set(atLower, i32.add(lowerLine, distance));
    f.set(atUpper, i32.add(upperLine, distance));
    body({
      ...{ to, y: rows.place, x: columns.place, atLower, atUpper, pixelBytes },
      setNext(next) {
        const column = f.let(i32.add(x, 1));
        next.set(column);
        return i32.and(i32.ltU(column, p.outWidth), i32.ltU(i32.add(pixel, 1), end));
      },
      skip() {
        f.add(to, pixelBytes);
        f.add(x, 1);
        f.add(pixel, 1);
      },
    });
    f.add(to, pixelBytes);
  });
}

/** Vectors per round of a pixel's channels. */
const unroll: Readonly<Record<FloatType, number>> = { f32: 4, f16: 1 };
/** The same for two pixels. */
const pairUnroll: Readonly<Record<FloatType, number>> = { f32: 2, f16: 1 };

/**
 * Images with channels between, bilinear. Two pixels that lie between the same ones are made in one pass. Only pixels whose
 * factor is not 0 are read: 0 times an infinite number is none. Chunk: `pixelsPerChunk` pixels of the output.
 */
export function bilinearPixelsKernel(dtype: FloatType): Kernel<PixelsTypes> {
  return defineKernel<PixelsTypes>({
    name: `resize_bilinear_pixels_${dtype}`,
    parameters: pixelsTypes,
    emit(f, { parameters, chunk }) {
      const elements = elementsOf(f, dtype);
      const one = f.let(f32.const(1));
      const next = placesAlong(f, resizedAxes(parameters).x);
      forPixels(f, parameters, chunk, elements.shift, (pixel) => {
        const { to, y, x, atLower, atUpper, pixelBytes } = pixel;
        /** The sum of pixels, each times its factor. */
        const blend = (...parts: readonly (readonly [at: Local<"i32">, factor: Value<"f32">])[]) => {
          const factors = parts.map(([, factor]) => f.let(f32x4.splat(factor)));
          mapVectors(f, {
            ...{ count: parameters.inner, unroll: unroll[dtype] },
            inputs: parts.map(([at]) => ({ at, elements })),
            output: { at: f.let(to), elements },
            compute: (...values) =>
              values
                .slice(1)
                .reduce(
                  (sum, value, i) => f.multiplyAdd(value, factors[i + 1]!, sum),
                  f32x4.mul(values[0]!, factors[0]!),
                ),
          });
        };
        const [isBetweenRows, isBetweenColumns] = [y, x].map(({ lower, upper }) => i32.ne(lower, upper));
        f.if(
          i32.and(isBetweenRows!, isBetweenColumns!),
          () => {
            const [top, left] = [f32.sub(one, y.weight), f32.sub(one, x.weight)].map((value) => f.let(value));
            const nextTo = (at: Local<"i32">) => f.let(i32.add(at, pixelBytes));
            const [lowerNext, upperNext] = [nextTo(atLower), nextTo(atUpper)];
            const isThere = pixel.setNext(next);
            const isBetween = i32.and(i32.eq(next.place.lower, x.lower), i32.eq(next.place.upper, x.upper));
            f.if(
              i32.and(isThere, isBetween),
              () => {
                const blends = [y.weight, x.weight, next.place.weight].map((weight) => blending(f, weight));
                const [rows, ...columns] = blends;
                mapToVectors(f, {
                  ...{ count: parameters.inner, unroll: pairUnroll[dtype] },
                  inputs: [atLower, atUpper, lowerNext, upperNext].map((at) => ({ at, elements })),
                  outputs: [to, i32.add(to, pixelBytes)].map((at) => ({ at: f.let(at), elements })),
                  compute(a, b, c, d) {
                    const [before, after] = [f.let(rows!(a!, b!)), f.let(rows!(c!, d!))];
                    return columns.map((blend) => blend(before, after));
                  },
                });
                pixel.skip();
              },
              () =>
                blend(
                  [atLower, f32.mul(top!, left!)],
                  [lowerNext, f32.mul(top!, x.weight)],
                  [atUpper, f32.mul(y.weight, left!)],
                  [upperNext, f32.mul(y.weight, x.weight)],
                ),
            );
          },
          () => {
            const other = f.let(i32.add(atLower, pixelBytes));
            f.if(isBetweenRows!, () => f.set(other, atUpper));
            f.if(
              i32.or(isBetweenRows!, isBetweenColumns!),
              () => {
                // One of the two is 0.
                const weight = f.let(f32.add(y.weight, x.weight));
                blend([atLower, f32.sub(one, weight)], [other, weight]);
              },
              () => f.memoryCopy(to, atLower, pixelBytes),
            );
          },
        );
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
      forPixels(f, parameters, chunk, shift, ({ to, atLower: from }) => {
        f.set(target, to);
        f.set(rest, i32.shl(parameters.inner, shift));
        f.while(i32.geU(rest, 16), () => move(16, from));
        f.while(i32.geU(rest, 4), () => move(4, from));
        if (bytes < 4) f.while(i32.gtU(rest, 0), () => move(bytes, from));
      });
    },
  });
}
