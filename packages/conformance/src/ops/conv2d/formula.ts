import type { Conv2dGeometry, Conv2dProblem, FloatType } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { productSum } from "../../tolerance.js";
import { finishing } from "../epilogue.js";
import type { Emit, Evaluate } from "../operation.js";
import { placeIn } from "./place.js";
import { convolutionTiles, widened } from "./transformed.js";

export type Conv2dShape = Conv2dGeometry;

/** Cross-correlation. The magnitude of an element is sum |input| |filter| + |bias|. */
export function conv2d(
  shape: Conv2dShape,
  input: Float64Array,
  filter: Float64Array,
  bias: Float64Array | undefined,
  emit: Emit,
): void {
  const { layout, batch, outChannels, outHeight, outWidth } = shape;
  const pixels = outHeight * outWidth;
  const place = placeIn(layout, outChannels, pixels);
  for (let image = 0; image < batch; image++)
    for (let channel = 0; channel < outChannels; channel++) {
      const { sums, magnitudes } = correlate(shape, input, filter, image, channel);
      const offset = bias?.[channel] ?? 0;
      for (let i = 0; i < pixels; i++)
        emit(place(image, channel, i), sums[i]! + offset, magnitudes[i]! + Math.abs(offset));
    }
}

/** One output channel of one image: every weight of its filter is added in wherever it meets the input. */
function correlate(
  shape: Conv2dShape,
  input: Float64Array,
  filter: Float64Array,
  image: number,
  channel: number,
): { readonly sums: Float64Array; readonly magnitudes: Float64Array } {
  const { inChannels, height, width, kernelHeight, kernelWidth, outHeight, outWidth, groups } = shape;
  const { layout, strideY, strideX, dilationY, dilationX, top, left } = shape;
  const place = placeIn(layout, inChannels, height * width);
  const groupChannels = inChannels / groups;
  const group = Math.floor(channel / (shape.outChannels / groups));
  const sums = new Float64Array(outHeight * outWidth);
  const magnitudes = new Float64Array(outHeight * outWidth);
  for (let c = 0; c < groupChannels; c++)
    for (let i = 0; i < kernelHeight; i++)
      for (let j = 0; j < kernelWidth; j++) {
        const source = group * groupChannels + c;
        const weight = filter[((channel * groupChannels + c) * kernelHeight + i) * kernelWidth + j]!;
        for (let y = 0; y < outHeight; y++) {
          const row = y * strideY + i * dilationY - top;
          if (row < 0 || row >= height) continue;
          for (let x = 0; x < outWidth; x++) {
            const column = x * strideX + j * dilationX - left;
            if (column < 0 || column >= width) continue;
            const product = input[place(image, source, row * width + column)]! * weight;
            sums[y * outWidth + x]! += product;
            magnitudes[y * outWidth + x]! += Math.abs(product);
          }
        }
      }
  return { sums, magnitudes };
}

export const evaluate: Evaluate<Conv2dProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, input, filter, bias, activation, output } = problem;
  const products = (problem.kernelHeight * problem.kernelWidth * problem.inChannels) / problem.groups;
  const images = memory.read(input, dtype);
  const weights = memory.read(filter, dtype);
  const offsets = bias && memory.read(bias, dtype);
  const bound = numerics && ((type: FloatType) => productSum(products + 1, type, numerics));
  const emit = finishing(memory.write(output, dtype), activation, dtype, bound, numerics);
  const tiles = numerics && convolutionTiles(problem, dtype, numerics, images, weights);
  conv2d(problem, images, weights, offsets, widened(emit, tiles, products + 1));
};
