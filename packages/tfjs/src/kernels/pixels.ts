import type { PixelData, TensorInfo } from "@tensorflow/tfjs-core";
import type { Call, Kernels } from "./kernel.js";
import { compose } from "./kernel.js";
import { copyOf } from "./moves.js";

/** What `tf.browser.fromPixels` takes. */
type Pixels =
  | PixelData
  | ImageData
  | ImageBitmap
  | HTMLCanvasElement
  | HTMLImageElement
  | HTMLVideoElement
  | OffscreenCanvas;

/** Red, green, blue and alpha of each pixel, row after row, each from 0 to 255. */
interface Bytes {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array | Uint8ClampedArray;
}

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Draws what cannot be read. One for all, made at the first use. */
let drawing: Context | undefined;

function drawingContext(): Context {
  if (drawing !== undefined) return drawing;
  const canvas =
    typeof OffscreenCanvas === "undefined" ? document.createElement("canvas") : new OffscreenCanvas(1, 1);
  drawing = canvas.getContext("2d", { willReadFrequently: true }) as Context;
  return drawing;
}

function bytesOf(pixels: Pixels): Bytes {
  if ("data" in pixels) return pixels as Bytes;
  const [width, height] =
    "videoWidth" in pixels ? [pixels.videoWidth, pixels.videoHeight] : [pixels.width, pixels.height];
  // There is nothing to read, and canvases refuse to.
  if (width * height === 0) return { width, height, data: new Uint8Array() };
  // null: the canvas is drawn on by other means than 2d.
  const own = "getContext" in pixels ? (pixels.getContext("2d") as Context | null) : null;
  if (own !== null) return { width, height, data: own.getImageData(0, 0, width, height).data };
  const context = drawingContext();
  context.canvas.width = width;
  context.canvas.height = height;
  context.drawImage(pixels as CanvasImageSource, 0, 0, width, height);
  return { width, height, data: context.getImageData(0, 0, width, height).data };
}

/** An image as int32 [height, width, numChannels]. Its bytes go to the device as they are, and become integers there. */
function fromPixels({
  inputs: { pixels },
  attrs: { numChannels },
  backend,
}: Pick<Call<never, { numChannels: number }>, "attrs" | "backend"> & {
  readonly inputs: { readonly pixels: Pixels };
}): TensorInfo {
  if (!Number.isInteger(numChannels) || numChannels < 1 || numChannels > 4)
    throw new Error(`FromPixels: numChannels is ${numChannels}; allowed: 1, 2, 3 and 4`);
  const { width, height, data } = bytesOf(pixels);
  if (data.length !== 4 * width * height)
    throw new Error(
      `FromPixels: data has ${data.length} elements; allowed: ${4 * width * height}, ` +
        `4 for each of ${width} x ${height} pixels`,
    );
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.length);
  return compose(backend, (made) => {
    // Nothing else has bytes for elements, and moves them as they are.
    const image = made(backend.make([height, width, 4], "bool", bytes));
    const shape = [height, width, numChannels];
    return copyOf(backend, image, shape, { shape, inputStrides: [4 * width, 4, 1] }, "int32");
  });
}

export const pixelKernels: Kernels = { FromPixels: fromPixels };
