import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** m: the largest x along the axis. The sums run along the axis. */
  kind: {
    role: "kind",
    kinds: {
      softmax: "e^(x - m) / sum of e^(x - m)",
      logSoftmax: "x - m - ln(sum of e^(x - m))",
    },
  },
  /** Shape of the input and the output, which are contiguous; any rank but 0. */
  shape: { role: "extents" },
  /** The axis to normalize along; negative ones count from the last. */
  axis: { role: "axis", default: -1 },
  input: { role: "reads", shape: "shape" },
  /** May be exactly `input`. */
  output: { role: "writes", shape: "shape" },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * output = kind(input) along one axis. f16 is computed in f32 and rounded once.
 *
 * -Infinity is ordinary: its softmax is 0 and its logSoftmax -Infinity. A NaN, +Infinity, or nothing but
 * -Infinity along the axis makes everything there NaN.
 */
export interface SoftmaxArguments extends ArgumentsOf<typeof table> {}

export type SoftmaxKind = SoftmaxArguments["kind"];

export const softmaxKinds: readonly SoftmaxKind[] = Object.keys(table.kind.kinds) as SoftmaxKind[];

/**
 * The axes before and after the given one are merged: element (o, j, i) is at (o * length + j) * inner + i. All
 * extents are at least 1. The regions are disjoint or the same.
 */
export interface SoftmaxProblem<Memory> {
  readonly dtype: FloatType;
  readonly kind: SoftmaxKind;
  readonly outer: number;
  /** Extent of the axis. */
  readonly length: number;
  readonly inner: number;
  readonly input: Region<Memory>;
  readonly output: Region<Memory>;
}

/** Per element: a comparison, a difference, an exponential, a sum, and a division or another difference. */
const flopsPerElement = 5;

export const softmax: Operation<SoftmaxArguments, SoftmaxProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "softmax",
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
    const input = read.region(binder, "input", args.input, count, dtype);
    const output = read.region(binder, "output", args.output, count, dtype);
    read.disjointOrSame({ argument: "output", region: output }, { argument: "input", region: input });
    if (count === 0) return undefined;
    const { outer, length, inner } = read.around("shape", shape, axis);
    // Written out: in a program of many shapes an object that others are spread into took a sixth of a small call.
    return { dtype, kind, outer, length, inner, input, output };
  },

  flops: ({ outer, length, inner }) => flopsPerElement * outer * length * inner,
});
