import {
  type Conv2dGeometry,
  type Conv2dProblem,
  type ConvolutionTile,
  convolutionTransforms,
  isTransformable,
} from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { unaryFunctions } from "../../functions.js";
import { placeIn } from "./place.js";

type Matrix = readonly (readonly number[])[];

/** Matrix times matrix, each step rounded to f32. */
function times(a: Matrix, b: Matrix): Matrix {
  return a.map((row) =>
    b[0]!.map((_, j) =>
      row.reduce((sum, x, k) => Math.fround(sum + Math.fround(Math.fround(x) * b[k]![j]!)), 0),
    ),
  );
}

function turned(a: Matrix): Matrix {
  return a[0]!.map((_, j) => a.map((row) => row[j]!));
}

/** M x M^T */
function transformed(matrix: Matrix, x: Matrix): Matrix {
  return times(times(matrix, x), turned(matrix));
}

/** The sums of a convolution that `isTransformable` accepts, by transforms in f32, one tile after another. */
function byTransforms(
  shape: Conv2dGeometry,
  tile: ConvolutionTile,
  images: Float64Array,
  weights: Float64Array,
): Float64Array {
  const { layout, batch, inChannels, height, width, outChannels, outHeight, outWidth, top, left } = shape;
  const { outputs, input, filter, output } = convolutionTransforms[tile];
  const inPlace = placeIn(layout, inChannels, height * width);
  const outPlace = placeIn(layout, outChannels, outHeight * outWidth);
  const square = (extent: number, at: (i: number, j: number) => number): Matrix =>
    Array.from({ length: extent }, (_, i) => Array.from({ length: extent }, (_, j) => at(i, j)));
  const filters = Array.from({ length: outChannels * inChannels }, (_, i) =>
    transformed(
      filter,
      square(3, (y, x) => weights[9 * i + 3 * y + x]!),
    ),
  );
  const pixelAt = (image: number, channel: number, y: number, x: number): number =>
    y < 0 || y >= height || x < 0 || x >= width ? 0 : images[inPlace(image, channel, y * width + x)]!;
  const sums = new Float64Array(batch * outChannels * outHeight * outWidth);
  for (let image = 0; image < batch; image++)
    for (let y = 0; y < outHeight; y += outputs)
      for (let x = 0; x < outWidth; x += outputs) {
        const inputs = Array.from({ length: inChannels }, (_, c) =>
          transformed(
            input,
            square(outputs + 2, (i, j) => pixelAt(image, c, y + i - top, x + j - left)),
          ),
        );
        for (let o = 0; o < outChannels; o++) {
          const products = square(outputs + 2, (i, j) =>
            inputs.reduce(
              (sum, pixels, c) =>
                Math.fround(sum + Math.fround(pixels[i]![j]! * filters[o * inChannels + c]![i]![j]!)),
              0,
            ),
          );
          const results = transformed(output, products);
          for (let i = 0; i < Math.min(outputs, outHeight - y); i++)
            for (let j = 0; j < Math.min(outputs, outWidth - x); j++)
              sums[outPlace(image, o, (y + i) * outWidth + x + j)] = results[i]![j]!;
        }
      }
  return sums;
}

type Problem = Conv2dProblem<ReferenceMemory>;

/** conv2d by transforms wherever they apply, and by `run` elsewhere. */
export function transformsConvolution(
  tile: ConvolutionTile,
): (problem: Problem, run: (problem: Problem) => void) => void {
  return (problem, run) => {
    const { dtype, input, filter, bias, activation, output } = problem;
    if (!isTransformable(dtype, problem)) {
      run(problem);
      return;
    }
    const sums = byTransforms(problem, tile, load(input, dtype), load(filter, dtype));
    const offsets = bias && load(bias, dtype);
    const finish = activation === undefined ? (sum: number) => sum : unaryFunctions[activation];
    const store = storeInto(output, dtype);
    const { layout, outChannels, outHeight, outWidth } = problem;
    const step = layout === "NCHW" ? outHeight * outWidth : 1;
    for (const [i, sum] of sums.entries())
      store(i, finish(Math.fround(sum + (offsets?.[Math.floor(i / step) % outChannels] ?? 0))));
  };
}
