import type { DType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { type IndexedAxis, indexedAxis } from "../indices.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** What an update u makes of the element x that is there. */
  kind: {
    role: "kind",
    kinds: { set: "u", add: "x + u", mul: "x * u", max: "the larger one", min: "the smaller one" },
  },
  /** Shape of the output, which is contiguous; any rank but 0. */
  shape: { role: "extents" },
  /** The axis that indices count along; negative ones count from the last. */
  axis: { role: "axis", default: 0 },
  /**
   * Shape of the indices, which are contiguous: as many axes as `shape`, and any extent along `axis`. The extents before
   * `axis` are those of `shape`, or all are 1: the indices then repeat along those axes. So are the extents after it.
   */
  indexShape: { role: "extents" },
  /** i32. An index below 0, or not below the extent of the axis, writes nothing. */
  indices: { role: "reads", shape: "indexShape; i32" },
  /** Contiguous. */
  updates: { role: "reads", shape: "shape with the extent of indexShape along the axis" },
  /** Contiguous. Elements that no index names stay as they are. May not overlap the updates or the indices. */
  output: { role: "updates", shape: "shape" },
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32"], default: "f32" },
} as const;

/**
 * output[o, indices[o, j, i], i] = kind(output[o, indices[o, j, i], i], updates[o, j, i]), for j in order, where o and i
 * stand for the places along the axes before and after the given one.
 *
 * Several updates of one element are made one after the other, in the order of j: the last one sets it, and sums have the
 * same bits every time. f16 is computed in f32; the backend chooses whether it rounds after each update or only after
 * the last one. i32 and u32 wrap around. What is set keeps its bits. The larger and the smaller one of a NaN and a
 * number is NaN if `capabilities.numerics` says that NaN is kept.
 *
 * - Adding rows to a table (the gradient of an embedding): kind "add", shape [rows, size], axis 0, indexShape [count, 1].
 * - Put along an axis: indexShape differs from shape along the axis alone.
 */
export interface ScatterArguments extends ArgumentsOf<typeof table> {}

export type ScatterKind = ScatterArguments["kind"];
export type ScatterType = NonNullable<ScatterArguments["dtype"]>;

export const scatterKinds: readonly ScatterKind[] = Object.keys(table.kind.kinds) as ScatterKind[];
export const scatterTypes: readonly ScatterType[] = table.dtype.types;

/**
 * Output element (o, k, i) is at (o * length + k) * inner + i, update (o, j, i) at (o * count + j) * inner + i, and its index
 * at o * outerStride + j * axisStride + i * innerStride. All extents are at least 1. The output is disjoint from both inputs.
 */
export interface ScatterProblem<Memory, Type extends DType = ScatterType> extends IndexedAxis {
  readonly dtype: Type;
  readonly kind: ScatterKind;
  readonly indices: Region<Memory>;
  readonly updates: Region<Memory>;
  readonly output: Region<Memory>;
}

export const scatter: Operation<ScatterArguments, ScatterProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "scatter",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, scatterKinds);
    const shape = read.extents("shape", args.shape);
    const axis = read.axis("axis", args.axis, table.axis.default, shape.length);
    const indexShape = read.extents("indexShape", args.indexShape);
    const places = indexedAxis(read, shape, axis, indexShape);
    const { outer, length, count, inner, outerStride, axisStride, innerStride } = places;
    const indexCount = read.product("indexShape", indexShape);
    const indices = read.region(binder, "indices", args.indices, indexCount, "i32");
    const updateCount = read.product("updates", shape.with(axis, count));
    const updates = read.region(binder, "updates", args.updates, updateCount, dtype);
    const output = read.region(binder, "output", args.output, read.product("shape", shape), dtype);
    for (const [argument, region] of [
      ["indices", indices],
      ["updates", updates],
    ] as const)
      read.disjoint({ argument: "output", region: output }, { argument, region });
    if (updateCount === 0 || length === 0) return undefined;
    return {
      dtype,
      kind,
      outer,
      length,
      count,
      inner,
      outerStride,
      axisStride,
      innerStride,
      indices,
      updates,
      output,
    };
  },

  /** One for each update, unless that only moves. */
  flops: ({ kind, outer, count, inner }) => (kind === "set" ? 0 : outer * count * inner),

  /** Of the output, no more elements than there are updates: read, unless they are set, and written. */
  bytes: ({ kind, indices, updates, output }) =>
    indices.byteLength +
    updates.byteLength +
    (kind === "set" ? 1 : 2) * Math.min(updates.byteLength, output.byteLength),
});
