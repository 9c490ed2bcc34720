import type { FloatType, IntegerType } from "../../dtype.js";
import type { Operand } from "../../handles.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** Shape of the input, which is contiguous; any rank but 0. */
  shape: { role: "extents" },
  /** The axis to sort along, of at most 2^31 elements; negative ones count from the last. */
  axis: { role: "axis", default: -1 },
  /** Whether the largest number comes first. */
  descending: { role: "flag", default: false },
  /** How many elements of each line are kept: the first ones of its order, at most all. */
  count: { role: "extent", otherwise: "all of the axis" },
  input: { role: "reads", shape: "shape" },
  /** The elements in order. Needed unless there are `indices`. */
  values: { role: "writes", shape: "shape, with count elements along the axis", otherwise: "none" },
  /** i32: where each of them was along the axis, from 0. */
  indices: { role: "writes", shape: "as values", otherwise: "none" },
  /** Of the input and the values. */
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32"], default: "f32" },
} as const;

/**
 * values[..., j, ...] = the j-th element of input[..., :, ...] in order, along one axis, and indices[..., j, ...] its
 * place there; the first `count` of them.
 *
 * The sort is stable: equal elements stay in the order of their places, descending too. -0 and +0 are equal. NaN, of
 * either sign, comes last, descending or not. Elements keep their bits, except that a NaN may become another one.
 * Where subnormal numbers are flushed, they may be equal to 0.
 */
export interface SortArguments extends ArgumentsOf<typeof table> {}

/**
 * The axes before and after the given one are merged: element (o, j, i) of the input is at
 * (o * length + j) * inner + i, and that of the results at (o * count + j) * inner + i. All extents are at least 1.
 */
export interface SortProblem<Memory> {
  readonly dtype: FloatType | IntegerType;
  readonly outer: number;
  /** Extent of the axis. */
  readonly length: number;
  readonly inner: number;
  readonly descending: boolean;
  /** From 1 to `length`. */
  readonly count: number;
  readonly input: Region<Memory>;
  readonly values: Region<Memory> | undefined;
  /** i32 */
  readonly indices: Region<Memory> | undefined;
}

/** Places are i32. */
const mostPlaces = 2 ** 31;

export const sort: Operation<SortArguments, SortProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "sort",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const shape = read.extents("shape", args.shape);
    const axis = read.axis("axis", args.axis, table.axis.default, shape.length);
    const descending = read.flag("descending", args.descending, table.descending.default);
    const elements = read.product("shape", shape);
    const length = shape[axis]!;
    if (elements > 0 && length > mostPlaces)
      read.fail(`shape[${axis}]`, `is ${length}, along which places are i32; allowed: 0 to ${mostPlaces}`);
    const count = read.optionalExtent("count", args.count) ?? length;
    if (count > length)
      read.fail("count", `is ${count}, of lines of ${length} elements; allowed: 0 to ${length}`);
    const results = read.product("shape", shape.with(axis, count));
    const input = read.region(binder, "input", args.input, elements, dtype);
    // Without indices there must be values; whatever stands in their place is refused as no handle.
    const values =
      args.indices === undefined
        ? read.region(binder, "values", args.values as Operand, results, dtype)
        : read.optionalRegion(binder, "values", args.values, results, dtype);
    const indices = read.optionalRegion(binder, "indices", args.indices, results, "i32");
    const source = { argument: "input", region: input };
    const outputs = [
      ...(values === undefined ? [] : [{ argument: "values", region: values }]),
      ...(indices === undefined ? [] : [{ argument: "indices", region: indices }]),
    ];
    for (const output of outputs) read.disjoint(output, source);
    if (outputs.length === 2) read.disjoint(outputs[1]!, outputs[0]!);
    if (results === 0) return undefined;
    const extents = read.around("shape", shape, axis);
    return { dtype, ...extents, descending, count, input, values, indices };
  },

  /** A comparison for each element and each halving of a line. */
  flops: ({ outer, length, inner }) => outer * length * inner * Math.ceil(Math.log2(Math.max(length, 2))),
});
