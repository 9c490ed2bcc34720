import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { elements } from "../checks.js";
import { defineOperation, Fill, type Operation } from "../operation.js";
import { type Resize2dKind, resize2dKinds } from "../resize2d/index.js";
import { type ResizedAxis, type Resizing, resizingOf, resizingTable } from "../resize2d/resizing.js";
import type { ArgumentsOf } from "../table.js";

const kindTable = {
  kind: {
    role: "kind",
    kinds: {
      nearest: "all of a result's gradient for the element that it is",
      bilinear: "a share of a result's gradient for each of the four elements around its place",
    },
  },
} as const;

const operandTable = {
  /** For each result of `resize2d`. */
  outputGradient: { role: "reads", shape: "inputShape with the extents of the output" },
  /** May not overlap the outputGradient. */
  inputGradient: { role: "writes", shape: "inputShape" },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

const table: typeof kindTable & typeof resizingTable & typeof operandTable = {
  ...kindTable,
  ...resizingTable,
  ...operandTable,
};

/**
 * The gradient of `resize2d` by its input: each element of the input gets the sum over the results o that are made of it, of
 * the same image and channel, of outputGradient[o] times the factor that `resize2d` gives the element there: 1 with
 * `nearest`, and with `bilinear` the product of (1 - s) or s and (1 - t) or t. An element that no result is made of gets 0,
 * and a gradient whose factor is 0 has no effect, whatever it is.
 *
 * Places are computed exactly, and are those of `resize2d`. Sums are computed in f32, and rounded to f16 once; the same call
 * has the same bits every time. All operands are contiguous. The other arguments are those of `resize2d`.
 */
export interface Resize2dGradientArguments extends ArgumentsOf<typeof table> {}

/** The factor of either axis is at least 1, so that places may be divided by it. */
export interface Resize2dGradientProblem<Memory> extends Resizing {
  readonly dtype: FloatType;
  readonly kind: Resize2dKind;
  readonly outputGradient: Region<Memory>;
  readonly inputGradient: Region<Memory>;
}

export const resize2dGradient: Operation<
  Resize2dGradientArguments,
  Resize2dGradientProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "resize2dGradient",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, resize2dKinds);
    const resizing = resizingOf(args, kind, read);
    const { inputs, outputs } = resizing;
    const outputGradient = read.region(binder, "outputGradient", args.outputGradient, outputs, dtype);
    const inputGradient = read.region(binder, "inputGradient", args.inputGradient, inputs, dtype);
    read.disjoint(
      { argument: "inputGradient", region: inputGradient },
      { argument: "outputGradient", region: outputGradient },
    );
    if (inputs === 0) return undefined;
    if (outputs === 0) return new Fill(inputGradient, 0, dtype);
    return {
      dtype,
      kind,
      planes: resizing.planes,
      height: resizing.height,
      width: resizing.width,
      inner: resizing.inner,
      outHeight: resizing.outHeight,
      outWidth: resizing.outWidth,
      y: divisible(resizing.y),
      x: divisible(resizing.x),
      outputGradient,
      inputGradient,
    };
  },

  /** A multiplication and an addition for each factor of an element, one pair of which belongs to the other axis. */
  flops: ({ kind, dtype, outputGradient }) => (kind === "nearest" ? 1 : 8) * elements(outputGradient, dtype),
});

/** If each place is the first, there is one element or one result, and any factor leads there. */
function divisible(axis: ResizedAxis): ResizedAxis {
  return axis.factor === 0 ? { factor: 1, shift: 0, divisor: 1 } : axis;
}
