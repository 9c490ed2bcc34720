import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import {
  type Conv2dGeometry,
  convolutionFlops,
  type GeometryArguments,
  geometryTable,
  readGeometry,
} from "../conv2d/geometry.js";
import { defineOperation, Fill, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

export { inputGradientSteps } from "./steps.js";

const table = {
  outputGradient: { role: "reads", shape: "outputShape" },
  filter: { role: "reads", shape: "filterShape" },
  /** May not overlap the other operands. It is read only with `accumulate`. */
  inputGradient: { role: "updates", shape: "inputShape" },
  /** Adds to what `inputGradient` holds. */
  accumulate: { role: "flag", default: false },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * The gradient of conv2d with respect to its input, which is also the transposed convolution:
 *
 *   inputGradient[b, g * C + c, r, s] = sum over o of group g, y, x, i, j with
 *       r = y * strideY + i * dilationY - top and s = x * strideX + j * dilationX - left of
 *     filter[o, c, i, j] * outputGradient[b, o, y, x]
 *
 * C = inChannels / groups is the number of input channels per group. Shapes, stride, padding, dilation, groups and layout
 * are those of the convolution; with layout "NHWC" channels are the last index of images. Input elements that no
 * window meets get 0. All operands are contiguous. f16 is computed in f32, what is added to included, and rounded
 * once.
 *
 * As a transposed convolution: `outputGradient` is what it reads, and `inputGradient`, of shape `inputShape`, its result.
 */
export interface Conv2dInputGradientArguments extends ArgumentsOf<typeof table>, GeometryArguments {}

/** All extents are at least 1, but there may be pixels of the input that no window meets. */
export interface Conv2dInputGradientProblem<Memory> extends Conv2dGeometry {
  readonly dtype: FloatType;
  readonly outputGradient: Region<Memory>;
  readonly filter: Region<Memory>;
  readonly inputGradient: Region<Memory>;
  /** False: the gradient must not be read. */
  readonly accumulate: boolean;
}

export const conv2dInputGradient: Operation<
  Conv2dInputGradientArguments,
  Conv2dInputGradientProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "conv2dInputGradient",
  arguments: { ...geometryTable, ...table },

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const { geometry, inputs, filters, outputs } = readGeometry(args, read);
    const accumulate = read.flag("accumulate", args.accumulate, table.accumulate.default);
    const outputGradient = read.region(binder, "outputGradient", args.outputGradient, outputs, dtype);
    const filter = read.region(binder, "filter", args.filter, filters, dtype);
    const inputGradient = read.region(binder, "inputGradient", args.inputGradient, inputs, dtype);
    for (const [argument, region] of Object.entries({ outputGradient, filter }))
      read.disjoint({ argument: "inputGradient", region: inputGradient }, { argument, region });
    if (inputs === 0) return undefined;
    if (outputs === 0) return accumulate ? undefined : new Fill(inputGradient, 0, dtype);
    return { ...geometry, dtype, outputGradient, filter, inputGradient, accumulate };
  },

  flops: (problem) => convolutionFlops(problem),

  bytes: ({ outputGradient, filter, inputGradient, accumulate }) =>
    outputGradient.byteLength + filter.byteLength + (accumulate ? 2 : 1) * inputGradient.byteLength,
});
