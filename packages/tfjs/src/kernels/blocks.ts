import type { TensorInfo } from "@tensorflow/tfjs-core";
import { elementCount, stridesOf } from "../elements.js";
import { type Call, compose, type Kernels } from "./kernel.js";
import { copyOf, pad, slice } from "./moves.js";

interface BlockAttributes {
  readonly blockShape: number[];
}

/** The blocks of an image become images of the batch. */
function spaceToBatch({
  inputs: { x },
  attrs: { blockShape, paddings },
  backend,
}: Call<"x", BlockAttributes & { paddings: [number, number][] }>): TensorInfo {
  return compose(backend, (made) => {
    const complete = x.shape.map((_, axis): [number, number] => paddings[axis - 1] ?? [0, 0]);
    const padded = made(pad(backend, x, complete, 0));
    const [batch, ...extents] = padded.shape as [number, ...number[]];
    const strides = stridesOf(padded.shape);
    const blocks = blockShape.length;
    const counts = blockShape.map((block, i) => extents[i]! / block);
    const rest = extents.slice(blocks);
    const outputShape = [batch * elementCount(blockShape), ...counts, ...rest];
    return copyOf(backend, padded, outputShape, {
      shape: [...blockShape, batch, ...counts, elementCount(rest)],
      inputStrides: [
        ...blockShape.map((_, i) => strides[i + 1]!),
        strides[0]!,
        ...blockShape.map((block, i) => block * strides[i + 1]!),
        1,
      ],
    });
  });
}

/** The inverse of `spaceToBatch`. */
function batchToSpace({
  inputs: { x },
  attrs: { blockShape, crops },
  backend,
}: Call<"x", BlockAttributes & { crops: number[][] }>): TensorInfo {
  return compose(backend, (made) => {
    const blocks = blockShape.length;
    const batch = x.shape[0]! / elementCount(blockShape);
    const counts = x.shape.slice(1, 1 + blocks);
    const rest = x.shape.slice(1 + blocks);
    const whole = [batch, ...counts.map((count, i) => count * blockShape[i]!), ...rest];
    const inner = elementCount(rest);
    // Axes of the input: blocks, batch, counts, rest.
    const steps = stridesOf([...blockShape, batch, ...counts, inner]);
    const merged = made(
      copyOf(backend, x, whole, {
        shape: [batch, ...counts.flatMap((count, i) => [count, blockShape[i]!]), inner],
        inputStrides: [steps[blocks]!, ...counts.flatMap((_, i) => [steps[blocks + 1 + i]!, steps[i]!]), 1],
      }),
    );
    const begin = whole.map((_, axis) => crops[axis - 1]?.[0] ?? 0);
    const size = whole.map((extent, axis) => extent - begin[axis]! - (crops[axis - 1]?.[1] ?? 0));
    return slice(backend, merged, begin, size);
  });
}

/** The channels of each pixel become a square of pixels. */
function depthToSpace({
  inputs: { x },
  attrs: { blockSize, dataFormat },
  backend,
}: Call<"x", { blockSize: number; dataFormat: "NHWC" | "NCHW" }>): TensorInfo {
  if (dataFormat !== "NHWC") throw new Error(`DepthToSpace: dataFormat is ${dataFormat}; allowed: NHWC`);
  const [batch, height, width, channels] = x.shape as [number, number, number, number];
  const depth = channels / blockSize ** 2;
  const steps = stridesOf([batch, height, width, blockSize, blockSize, depth]);
  return copyOf(backend, x, [batch, height * blockSize, width * blockSize, depth], {
    shape: [batch, height, blockSize, width, blockSize, depth],
    inputStrides: [0, 1, 3, 2, 4, 5].map((axis) => steps[axis]!),
  });
}

/** Kernels that exchange blocks of pixels for images of the batch, and channels for pixels. */
export const blockKernels: Kernels = {
  SpaceToBatchND: spaceToBatch,
  BatchToSpaceND: batchToSpace,
  DepthToSpace: depthToSpace,
};
