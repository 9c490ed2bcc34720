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

export { filterGradientProduct, filterGradientSteps } from "./steps.js";

const table = {
  input: { role: "reads", shape: "inputShape" },
  outputGradient: { role: "reads", shape: "outputShape" },
  /** May not overlap the other operands. It is read only with `accumulate`. */
  filterGradient: { role: "updates", shape: "filterShape" },
  /** Adds to what `filterGradient` holds. */
  accumulate: { role: "flag", default: false },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * The gradient of conv2d with respect to its filter:
 *
 *   filterGradient[o, c, i, j] = sum over b, y, x of
 *     outputGradient[b, o, y, x] * input[b, group(o) * C + c, y * strideY + i * dilationY - top,
 *                                                             x * strideX + j * dilationX - left]
 *
 * C = inChannels / groups is the number of input channels per group, and group(o) = floor(o / (outChannels /
 * groups)). Shapes, stride, padding, dilation, groups and layout are those of the convolution; with layout "NHWC"
 * channels are the last index of images, not of the filter. The input is zero outside its bounds. All operands are
 * contiguous. f16 is computed in f32, what is added to included, and rounded once.
 */
export interface Conv2dFilterGradientArguments extends ArgumentsOf<typeof table>, GeometryArguments {}

/** All extents are at least 1, but there may be places of the filter that only meet padding. */
export interface Conv2dFilterGradientProblem<Memory> extends Conv2dGeometry {
  readonly dtype: FloatType;
  readonly input: Region<Memory>;
  readonly outputGradient: Region<Memory>;
  readonly filterGradient: Region<Memory>;
  /** False: the gradient must not be read. */
  readonly accumulate: boolean;
}

export const conv2dFilterGradient: Operation<
  Conv2dFilterGradientArguments,
  Conv2dFilterGradientProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "conv2dFilterGradient",
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
    const input = read.region(binder, "input", args.input, inputs, dtype);
    const outputGradient = read.region(binder, "outputGradient", args.outputGradient, outputs, dtype);
    const filterGradient = read.region(binder, "filterGradient", args.filterGradient, filters, dtype);
    for (const [argument, region] of Object.entries({ input, outputGradient }))
      read.disjoint({ argument: "filterGradient", region: filterGradient }, { argument, region });
    if (filters === 0) return undefined;
    if (inputs === 0 || outputs === 0) return accumulate ? undefined : new Fill(filterGradient, 0, dtype);
    return { ...geometry, dtype, input, outputGradient, filterGradient, accumulate };
  },

  flops: (problem) => convolutionFlops(problem),

  bytes: ({ input, outputGradient, filterGradient, accumulate }) =>
    input.byteLength + outputGradient.byteLength + (accumulate ? 2 : 1) * filterGradient.byteLength,
});
