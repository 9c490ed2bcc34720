import type { FloatType, IntegerType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  kind: {
    role: "kind",
    kinds: {
      sum: "sum of all x so far",
      prod: "product of all x so far",
      max: "the largest x so far",
      min: "the smallest x so far",
    },
  },
  /** Shape of the input and the output, which are contiguous; any rank but 0. */
  shape: { role: "extents" },
  /** The axis along which elements are combined; negative ones count from the last. */
  axis: { role: "axis", default: -1 },
  /** Whether an element is left out of its own result; the first result is then that of no elements. */
  exclusive: { role: "flag", default: false },
  /** Whether elements are combined from the last to the first. */
  reverse: { role: "flag", default: false },
  input: { role: "reads", shape: "shape" },
  output: { role: "writes", shape: "shape" },
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32"], default: "f32" },
} as const;

/**
 * output[..., j, ...] = kind over all k <= j of input[..., k, ...], along one axis; k < j if exclusive, and k >= j
 * or k > j in reverse.
 *
 * Of no elements: sum 0, prod 1, max -Infinity and min Infinity, or the least and the largest integer. Floats are
 * combined in f32, and f16 is rounded once, at the end. Integers wrap around. A NaN stays from its place on.
 */
export interface ScanArguments extends ArgumentsOf<typeof table> {}

export type ScanKind = ScanArguments["kind"];

export const scanKinds: readonly ScanKind[] = Object.keys(table.kind.kinds) as ScanKind[];

/**
 * The axes before and after the given one are merged: element (o, j, i) of the input and of the output is at
 * (o * length + j) * inner + i. All extents are at least 1.
 */
export interface ScanProblem<Memory> {
  readonly dtype: FloatType | IntegerType;
  readonly kind: ScanKind;
  readonly outer: number;
  /** Extent of the axis. */
  readonly length: number;
  readonly inner: number;
  readonly exclusive: boolean;
  readonly reverse: boolean;
  readonly input: Region<Memory>;
  readonly output: Region<Memory>;
}

export const scan: Operation<ScanArguments, ScanProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "scan",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, scanKinds);
    const shape = read.extents("shape", args.shape);
    const axis = read.axis("axis", args.axis, table.axis.default, shape.length);
    const exclusive = read.flag("exclusive", args.exclusive, table.exclusive.default);
    const reverse = read.flag("reverse", args.reverse, table.reverse.default);
    const count = read.product("shape", shape);
    const input = read.region(binder, "input", args.input, count, dtype);
    const output = read.region(binder, "output", args.output, count, dtype);
    read.disjoint({ argument: "output", region: output }, { argument: "input", region: input });
    if (count === 0) return undefined;
    const { outer, length, inner } = read.around("shape", shape, axis);
    return { dtype, kind, outer, length, inner, exclusive, reverse, input, output };
  },

  /** A combination for each element. */
  flops: ({ outer, length, inner }) => outer * length * inner,
});
