import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, i32, type Local, type ModuleBuilder, select } from "../../wasm/index.js";
import { elementFormats } from "../elements/index.js";
import { gatherFunction, panelHeight } from "../panels/index.js";

/** What parameters of kernels say about windows. */
type WindowsGeometry = Readonly<
  Record<
    | "height"
    | "width"
    | "inChannels"
    | "outHeight"
    | "outWidth"
    | "kernelHeight"
    | "kernelWidth"
    | "strideY"
    | "strideX"
    | "top"
    | "left"
    | "dilationY"
    | "dilationX",
    Local<"i32">
  >
>;

export interface GatheredPixels {
  /** The first input channel, in the first pixel of the input, and how many. */
  readonly source: Local<"i32">;
  readonly channels: Local<"i32">;
  /** As many zeros as there are channels, and some more. */
  readonly zeros: Local<"i32">;
  /** The first pixel of the output, counted through the batch, and how many. */
  readonly pixel: Local<"i32">;
  readonly pixels: Local<"i32">;
  /** Scratch: for each line of a panel the address of its window's first element, its place, and where to read. */
  readonly lines: Local<"i32">;
}

export interface WindowPanel {
  /** How many there are: all, or fewer in the last two panels. The lines after the last one repeat it. */
  readonly pixels: Local<"i32">;
  /** Whether all windows are in the image. */
  readonly isInside: Local<"i32">;
}

/** The windows of some pixels, as many at a time as panels have rows. */
export interface WindowPanels {
  readonly each: (body: (panel: WindowPanel) => void) => void;
  /**
   * Gathers the windows of the present panel at `to`, which is moved on. The channels of a pixel of the window follow
   * one another, as they do in the image; elements beyond it are zeros.
   */
  readonly gather: (to: Local<"i32">, isInside: Local<"i32">) => void;
  /** Bytes from row to row of a window, in the image. */
  readonly tapRowBytes: Local<"i32">;
}

export function windowPanels(
  f: FunctionBuilder,
  module: ModuleBuilder,
  dtype: FloatType,
  rows: number,
  p: WindowsGeometry,
  { source, channels, zeros, pixel, pixels, lines }: GatheredPixels,
): WindowPanels {
  const { shift } = elementFormats[dtype];
  const gather = gatherFunction(module, dtype, rows);
  const { height, width, outHeight, outWidth, strideY, strideX, dilationY, dilationX } = p;
  const { kernelHeight, kernelWidth } = p;
  const pixelBytes = f.let(i32.shl(p.inChannels, shift));
  const rowBytes = f.let(i32.mul(width, pixelBytes));
  const tapBytes = f.let(i32.mul(dilationX, pixelBytes));
  const tapRowBytes = f.let(i32.mul(dilationY, rowBytes));
  const step = f.let(i32.const(4 * rows));
  // From the first to the last element of a window.
  const reachY = f.let(i32.mul(i32.sub(kernelHeight, 1), dilationY));
  const reachX = f.let(i32.mul(i32.sub(kernelWidth, 1), dilationX));
  const insideY = f.let(i32.sub(height, reachY));
  const insideX = f.let(i32.sub(width, reachX));
  // Of each window of a panel: the address of its first element, its place, and where to read.
  const [placesY, placesX, reads] = [4 * rows, 8 * rows, 12 * rows];
  const always = f.let(i32.const(1));

  const tapPanelBytes = f.let(i32.mul(channels, step));
  // Of a window inside the image, whole rows lie in one piece if it has all channels.
  const inPieces = f.let(i32.and(i32.eq(channels, p.inChannels), i32.eq(dilationX, 1)));
  const pieces = f.let(i32.const(1));
  const pieceElements = f.let(i32.mul(channels, kernelWidth));
  f.if(i32.eqz(inPieces), () => {
    f.set(pieces, kernelWidth);
    f.set(pieceElements, channels);
  });
  const pieceBytes = f.let(i32.mul(pieceElements, 4 * rows));

  const gatherPanel = (to: Local<"i32">, isInside: Local<"i32">): void => {
    const rowOffset = f.let(i32.const(0));
    f.forRange(0, kernelHeight, (i) => {
      const offset = f.let(rowOffset);
      f.if(
        isInside,
        () =>
          f.forRange(0, pieces, () => {
            f.call(gather, lines, offset, pieceElements, to, step);
            f.add(to, pieceBytes);
            f.add(offset, tapBytes);
          }),
        () => {
          const tapY = f.let(i32.mul(i, dilationY));
          f.forRange(0, kernelWidth, (j) => {
            const tapX = f.let(i32.mul(j, dilationX));
            for (let r = 0; r < rows; r++) {
              const isRow = i32.ltU(i32.add(i32.load(lines, placesY + 4 * r), tapY), height);
              const isColumn = i32.ltU(i32.add(i32.load(lines, placesX + 4 * r), tapX), width);
              const at = i32.add(i32.load(lines, 4 * r), offset);
              f.store(lines, select(at, zeros, i32.and(isRow, isColumn)), reads + 4 * r);
            }
            f.call(gather, i32.add(lines, reads), 0, channels, to, step);
            f.add(to, tapPanelBytes);
            f.add(offset, tapBytes);
          });
        },
      );
      f.add(rowOffset, tapRowBytes);
    });
  };
  const each = (body: (panel: WindowPanel) => void): void => {
    const x = f.let(i32.remU(pixel, outWidth));
    const line = f.let(i32.divU(pixel, outWidth));
    const y = f.let(i32.remU(line, outHeight));
    const image = f.let(i32.divU(line, outHeight));
    const left = f.let(pixels);
    const isInside = f.local("i32");
    const advance = (): void => {
      f.add(x, 1);
      f.if(i32.eq(x, outWidth), () => {
        f.set(x, 0);
        f.add(y, 1);
        f.if(i32.eq(y, outHeight), () => {
          f.set(y, 0);
          f.add(image, 1);
        });
      });
    };
    f.while(left, () => {
      const count = panelHeight(f, left, rows, always);
      f.set(isInside, 1);
      for (let r = 0; r < rows; r++) {
        const startY = f.let(i32.sub(i32.mul(y, strideY), p.top));
        const startX = f.let(i32.sub(i32.mul(x, strideX), p.left));
        const first = i32.add(
          i32.add(source, i32.mul(i32.add(i32.mul(image, height), startY), rowBytes)),
          i32.mul(startX, pixelBytes),
        );
        f.store(lines, first, 4 * r);
        f.store(lines, startY, placesY + 4 * r);
        f.store(lines, startX, placesX + 4 * r);
        // As a signed number each of these is negative if the window lies partly outside.
        const outside = i32.or(
          i32.or(startY, startX),
          i32.or(i32.sub(i32.sub(insideY, 1), startY), i32.sub(i32.sub(insideX, 1), startX)),
        );
        f.if(i32.ltS(outside, 0), () => f.set(isInside, 0));
        // The lines after the last one repeat it.
        if (r + 1 < rows) f.if(i32.gtU(count, r + 1), advance);
        else advance();
      }
      body({ pixels: count, isInside });
      f.set(left, i32.sub(left, count));
    });
  };
  return { each, gather: gatherPanel, tapRowBytes };
}
