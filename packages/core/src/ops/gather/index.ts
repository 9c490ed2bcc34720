import type { DType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { type IndexedAxis, indexedAxis } from "../indices.js";
import { defineOperation, Fill, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** Shape of the input, which is contiguous; any rank but 0. */
  shape: { role: "extents" },
  /** The axis that indices count along; negative ones count from the last. */
  axis: { role: "axis", default: 0 },
  input: { role: "reads", shape: "shape" },
  /**
   * Shape of the indices, which are contiguous: as many axes as `shape`, and any extent along `axis`. The extents before
   * `axis` are those of `shape`, or all are 1: the indices then repeat along those axes. So are the extents after it.
   */
  indexShape: { role: "extents" },
  /** i32. An index below 0, or not below the extent of the axis, takes 0 instead of an element. */
  indices: { role: "reads", shape: "indexShape; i32" },
  /** Contiguous. May not overlap the input or the indices. */
  output: { role: "writes", shape: "shape with the extent of indexShape along the axis" },
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32", "u8"], default: "f32" },
} as const;

/**
 * output[o, j, i] = input[o, indices[o, j, i], i], where o and i stand for the places along the axes before and after
 * the given one. Elements are copied bit by bit.
 *
 * - Rows of a table (embedding): shape [rows, size], axis 0, indexShape [count, 1].
 * - Rows of a table for each of a batch: shape [batch, rows, size], axis 1, indexShape [batch, count, 1].
 * - Take along an axis: indexShape differs from shape along the axis alone.
 */
export interface GatherArguments extends ArgumentsOf<typeof table> {}

export type GatherType = NonNullable<GatherArguments["dtype"]>;

export const gatherTypes: readonly GatherType[] = table.dtype.types;

/**
 * Input element (o, k, i) is at (o * length + k) * inner + i, output element (o, j, i) at (o * count + j) * inner + i, and its
 * index at o * outerStride + j * axisStride + i * innerStride. All extents are at least 1.
 */
export interface GatherProblem<Memory, Type extends DType = GatherType> extends IndexedAxis {
  readonly dtype: Type;
  readonly input: Region<Memory>;
  readonly indices: Region<Memory>;
  /** Disjoint from both inputs. */
  readonly output: Region<Memory>;
}

export const gather: Operation<GatherArguments, GatherProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "gather",
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
    const indexShape = read.extents("indexShape", args.indexShape);
    const places = indexedAxis(read, shape, axis, indexShape);
    const { outer, length, count, inner, outerStride, axisStride, innerStride } = places;
    const input = read.region(binder, "input", args.input, read.product("shape", shape), dtype);
    const indexCount = read.product("indexShape", indexShape);
    const indices = read.region(binder, "indices", args.indices, indexCount, "i32");
    const outputCount = read.product("output", shape.with(axis, count));
    const output = read.region(binder, "output", args.output, outputCount, dtype);
    for (const [argument, region] of [
      ["input", input],
      ["indices", indices],
    ] as const)
      read.disjoint({ argument: "output", region: output }, { argument, region });
    if (outputCount === 0) return undefined;
    // No index is in range.
    if (length === 0) return new Fill(output, 0, dtype);
    return {
      dtype,
      outer,
      length,
      count,
      inner,
      outerStride,
      axisStride,
      innerStride,
      input,
      indices,
      output,
    };
  },

  flops: () => 0,

  /** Of the input, no more than there are results. */
  bytes: ({ input, indices, output }) =>
    Math.min(input.byteLength, output.byteLength) + indices.byteLength + output.byteLength,
});
