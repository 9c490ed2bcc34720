import type { FloatType, IntegerType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  kind: {
    role: "kind",
    kinds: {
      argMax: "the first place of the largest x",
      argMin: "the first place of the smallest x",
    },
  },
  /** Shape of the input, which is contiguous; any rank but 0. */
  shape: { role: "extents" },
  /** The axis to search along, of 1 to 2^31 elements; negative ones count from the last. */
  axis: { role: "axis", default: -1 },
  input: { role: "reads", shape: "shape" },
  /** i32: places along the axis, from 0. Contiguous. */
  output: { role: "writes", shape: "shape without the axis" },
  /** Of the input. */
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32"], default: "f32" },
} as const;

/**
 * output[all indices but j] = the least j at which input[all indices] is the largest, or smallest, along one axis.
 *
 * A NaN, of either sign, is larger than the largest and smaller than the smallest: the first one is found. -0 and
 * +0 are equal. Where subnormal numbers are flushed, they may be equal to 0, too.
 */
export interface ArgReduceArguments extends ArgumentsOf<typeof table> {}

export type ArgReduceKind = ArgReduceArguments["kind"];

export const argReduceKinds: readonly ArgReduceKind[] = Object.keys(table.kind.kinds) as ArgReduceKind[];

/**
 * The axes before and after the given one are merged: element (o, j, i) of the input is at
 * (o * length + j) * inner + i, and its result at o * inner + i. All extents are at least 1.
 */
export interface ArgReduceProblem<Memory> {
  readonly dtype: FloatType | IntegerType;
  readonly kind: ArgReduceKind;
  readonly outer: number;
  /** Extent of the axis. */
  readonly length: number;
  readonly inner: number;
  readonly input: Region<Memory>;
  /** i32 */
  readonly output: Region<Memory>;
}

/** Places are i32. */
const mostPlaces = 2 ** 31;

export const argReduce: Operation<
  ArgReduceArguments,
  ArgReduceProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "argReduce",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, argReduceKinds);
    const shape = read.extents("shape", args.shape);
    const axis = read.axis("axis", args.axis, table.axis.default, shape.length);
    const count = read.product("shape", shape);
    const outputs = read.product("shape", shape.toSpliced(axis, 1));
    const length = shape[axis]!;
    if (outputs > 0 && (length === 0 || length > mostPlaces))
      read.fail(
        `shape[${axis}]`,
        `is ${length}, along which places are sought; allowed: 1 to ${mostPlaces}, or a shape without results`,
      );
    const input = read.region(binder, "input", args.input, count, dtype);
    const output = read.region(binder, "output", args.output, outputs, "i32");
    read.disjoint({ argument: "output", region: output }, { argument: "input", region: input });
    if (outputs === 0) return undefined;
    const { outer, inner } = read.around("shape", shape, axis);
    return { dtype, kind, outer, length, inner, input, output };
  },

  /** A comparison for each element. */
  flops: ({ outer, length, inner }) => outer * length * inner,
});
