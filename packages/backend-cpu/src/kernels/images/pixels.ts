import { type FunctionBuilder, i32, type Local } from "../../wasm/index.js";

/** How pixels of all images are dealt out: the parameters of a kernel whose chunk is some pixels. */
export const pixelTypes = {
  /** Pixels of all images. */
  pixels: "i32",
  pixelsPerChunk: "i32",
  /** Channels of a pixel. */
  inner: "i32",
} as const;

export type PixelName = keyof typeof pixelTypes;

/** The part of a chunk, and where in it the kernel is. */
export interface ChunkPixels {
  readonly pixel: Local<"i32">;
  readonly end: Local<"i32">;
  readonly plane: Local<"i32">;
  readonly y: Local<"i32">;
  readonly x: Local<"i32">;
  /** Calls `body` for each pixel, and `setRow` before the first one of each row. The body may go on to a later one of the row. */
  forPixels(setRow: () => void, body: () => void): void;
}

/** Finds the part of a chunk of images with this height and width. */
export function chunkPixels(
  f: FunctionBuilder,
  { pixels, pixelsPerChunk }: Readonly<Record<"pixels" | "pixelsPerChunk", Local<"i32">>>,
  chunk: Local<"i32">,
  height: Local<"i32">,
  width: Local<"i32">,
): ChunkPixels {
  const pixel = f.let(i32.mul(chunk, pixelsPerChunk));
  const end = f.let(i32.add(pixel, i32.minU(pixelsPerChunk, i32.sub(pixels, pixel))));
  const row = f.let(i32.divU(pixel, width));
  const x = f.let(i32.sub(pixel, i32.mul(row, width)));
  const plane = f.let(i32.divU(row, height));
  const y = f.let(i32.sub(row, i32.mul(plane, height)));
  return {
    ...{ pixel, end, plane, y, x },
    forPixels(setRow, body) {
      setRow();
      f.forLocal(pixel, end, () => {
        body();
        f.add(x, 1);
        f.if(i32.eq(x, width), () => {
          f.set(x, 0);
          f.add(y, 1);
          f.if(i32.eq(y, height), () => {
            f.set(y, 0);
            f.add(plane, 1);
          });
          setRow();
        });
      });
    },
  };
}
