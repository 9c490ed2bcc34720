import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import { type SoftmaxKind, softmaxKinds } from "../softmax/index.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** y is the output of the forward operation, dy its gradient. The sums run along the axis. */
  kind: {
    role: "kind",
    kinds: {
      softmax: "y (dy - sum of y dy)",
      logSoftmax: "dy - e^y (sum of dy)",
    },
  },
  /** Shape of all three operands, which are contiguous; any rank but 0. */
  shape: { role: "extents" },
  /** The axis of the forward operation; negative ones count from the last. */
  axis: { role: "axis", default: -1 },
  /** What softmax or logSoftmax has written. */
  output: { role: "reads", shape: "shape" },
  /** The gradient of `output`. */
  outputGradient: { role: "reads", shape: "shape" },
  /** May be exactly `outputGradient` or `output`. */
  inputGradient: { role: "writes", shape: "shape" },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * inputGradient = kind(output, outputGradient) along one axis: the gradient of softmax or logSoftmax. f16 is computed in
 * f32 and rounded once.
 *
 * The output may hold any numbers; those of softmax add up to 1 and their logarithms are not positive. An output of
 * -Infinity has the weight 0 in logSoftmax.
 */
export interface SoftmaxGradientArguments extends ArgumentsOf<typeof table> {}

/**
 * The axes before and after the given one are merged: element (o, j, i) is at (o * length + j) * inner + i. All
 * extents are at least 1. The input gradient is apart from both inputs, or exactly one of them, or both.
 */
export interface SoftmaxGradientProblem<Memory> {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  readonly outer: number;
  /** Extent of the axis. */
  readonly length: number;
  readonly inner: number;
  readonly output: Region<Memory>;
  readonly outputGradient: Region<Memory>;
  readonly inputGradient: Region<Memory>;
}

/** A product and a sum, and then a difference and a product; an exponential instead of the first product. */
const flopsPerElement = 4;

export const softmaxGradient: Operation<
  SoftmaxGradientArguments,
  SoftmaxGradientProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "softmaxGradient",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, softmaxKinds);
    const shape = read.extents("shape", args.shape);
    const axis = read.axis("axis", args.axis, table.axis.default, shape.length);
    const count = read.product("shape", shape);
    const output = read.region(binder, "output", args.output, count, dtype);
    const outputGradient = read.region(binder, "outputGradient", args.outputGradient, count, dtype);
    const inputGradient = read.region(binder, "inputGradient", args.inputGradient, count, dtype);
    const result = { argument: "inputGradient", region: inputGradient };
    read.disjointOrSame(result, { argument: "outputGradient", region: outputGradient });
    read.disjointOrSame(result, { argument: "output", region: output });
    if (count === 0) return undefined;
    const { outer, length, inner } = read.around("shape", shape, axis);
    return { dtype, kind, outer, length, inner, output, outputGradient, inputGradient };
  },

  flops: ({ outer, length, inner }) => flopsPerElement * outer * length * inner,
});
