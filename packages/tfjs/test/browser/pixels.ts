import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { assert } from "chai";

const [width, height] = [3, 2];

/** Opaque pixels: a canvas keeps these as they are. */
const image = new ImageData(
  Uint8ClampedArray.from({ length: 4 * width * height }, (_, i) => (i % 4 === 3 ? 255 : 10 * i)),
  width,
  height,
);

function drawn(canvas: OffscreenCanvas | HTMLCanvasElement): typeof canvas {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d") as OffscreenCanvasRenderingContext2D | CanvasRenderingContext2D;
  context.putImageData(image, 0, 0);
  return canvas;
}

async function imageElement(): Promise<HTMLImageElement> {
  const element = new Image();
  element.src = (drawn(document.createElement("canvas")) as HTMLCanvasElement).toDataURL("image/png");
  await element.decode();
  return element;
}

const sources: Readonly<Record<string, () => unknown>> = {
  ImageData: () => image,
  "a canvas": () => drawn(document.createElement("canvas")),
  "a canvas that is not on the page": () => drawn(new OffscreenCanvas(1, 1)),
  "a bitmap": () => createImageBitmap(image),
  "an image": imageElement,
  "bytes, width and height": () => ({ width, height, data: new Uint8Array(image.data) }),
};

describe("tf.browser.fromPixels", () => {
  let registration: Registration;

  before(async () => {
    registration = await register(tf, [cpu(), webgpu()]);
  });

  after(() => registration.dispose());

  for (const backend of ["cpu", "webgpu"])
    describe(`on ${backend}`, () => {
      before(() => registration.use(backend));

      for (const [name, source] of Object.entries(sources))
        it(`takes ${name}`, async () => {
          const pixels = (await source()) as ImageData;
          for (const channels of [1, 3, 4]) {
            const tensor = tf.browser.fromPixels(pixels, channels);
            assert.deepEqual(tensor.shape, [height, width, channels]);
            assert.equal(tensor.dtype, "int32");
            assert.deepEqual(
              [...(await tensor.data())],
              [...image.data].filter((_, i) => i % 4 < channels),
            );
            tensor.dispose();
          }
          const later = await tf.browser.fromPixelsAsync(pixels);
          assert.deepEqual(
            [...(await later.data())],
            [...image.data].filter((_, i) => i % 4 < 3),
          );
          later.dispose();
          assert.equal(registration.compute.memory().liveAllocations, 0);
        });

      it("takes a canvas that WebGL draws on", async () => {
        const canvas = new OffscreenCanvas(width, height);
        const gl = canvas.getContext("webgl", { preserveDrawingBuffer: true });
        assert.isNotNull(gl);
        gl!.clearColor(1, 0, 1, 1);
        gl!.clear(gl!.COLOR_BUFFER_BIT);
        const tensor = tf.browser.fromPixels(canvas as unknown as HTMLCanvasElement);
        const expected = Array.from({ length: width * height }, () => [255, 0, 255]).flat();
        assert.deepEqual([...(await tensor.data())], expected);
        tensor.dispose();
      });

      it("gives back what it was given, by toPixels", async () => {
        const tensor = tf.browser.fromPixels(image, 4);
        assert.deepEqual([...(await tf.browser.toPixels(tensor))], [...image.data]);
        tensor.dispose();
      });
    });
});
