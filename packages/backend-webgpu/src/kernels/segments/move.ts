import { dtypeBytes, type FloatType } from "@backplane/core";
import {
  type ComputedType,
  input,
  layouts,
  linearBuiltins,
  memoized,
  output,
  type Program,
  program,
  WORKGROUP_SIZE,
  wgsl,
  workgroupIndex,
} from "../../program/index.js";
import type { BufferRegion, KernelContext } from "../../runtime/index.js";
import { type MatrixLayout, storeHalves } from "../halves.js";
import { middleOf, sliceOf, windowBytes, windowOf } from "./regions.js";

/** One of up to four nested loops. Strides count elements. */
export interface MoveAxis {
  readonly extent: number;
  readonly from: number;
  readonly to: number;
}

const AXES = 4;

/** One invocation moves one element. Row of the table: extent, stride in the source, stride in the output. */
const moveProgram = memoized(
  (dtype: ComputedType): Program<"source" | "output", "count" | "axes"> =>
    program({
      name: `move_${dtype}`,
      bindings: { source: input(layouts[dtype].single), output: output(layouts[dtype].value) },
      parameters: { count: "u32", axes: { rows: AXES } },
      body: wgsl`
${workgroupIndex}
${layouts[dtype].functions}
@compute @workgroup_size(${WORKGROUP_SIZE})
fn main(${linearBuiltins}) {
  let index = workgroup_index(workgroup, workgroups) * ${WORKGROUP_SIZE}u + lane;
  if (index >= parameters.count) { return; }
  var at = vec2<u32>(parameters.source_offset, parameters.output_offset);
  var rest = index;
  for (var axis = ${AXES - 1}u; axis > 0u; axis--) {
    let row = parameters.axes[axis];
    let next = rest / row.x;
    at += (rest - next * row.x) * row.yz;
    rest = next;
  }
  at += rest * parameters.axes[0].yz;
  output[at.y] = ${layouts[dtype].load("source", "at.x")};
}
`,
    }),
);

/**
 * Copies elements of type `dtype` that lie `from` apart in the source, as values (f32 from f16) to places `to` apart
 * in the destination. Everything in between keeps its bits. The regions may be longer than is moved.
 */
export function move(
  context: KernelContext,
  destination: BufferRegion,
  source: BufferRegion,
  dtype: ComputedType,
  axes: readonly MoveAxis[],
): void {
  const count = axes.reduce((product, { extent }) => product * extent, 1);
  if (count === 0) return;
  const span = (stride: "from" | "to") =>
    axes.reduce((sum, axis) => sum + (axis.extent - 1) * axis[stride], 1);
  const { value } = layouts[dtype];
  const from = sliceOf(source, dtype, 0, span("from"));
  const to = sliceOf(destination, value, 0, span("to"));
  const limit = windowBytes(context.features);
  if (windowOf(from) > limit || windowOf(to) > limit) {
    const reach = axes.map(
      ({ extent, from, to }) => (extent - 1) * Math.max(from * dtypeBytes[dtype], to * 4),
    );
    const widest = reach.indexOf(Math.max(...reach));
    const axis = axes[widest]!;
    const middle = middleOf(axis.extent);
    move(context, to, from, dtype, axes.with(widest, { ...axis, extent: middle }));
    const rest = (region: BufferRegion, type: ComputedType, stride: number) =>
      sliceOf(region, type, middle * stride, region.byteLength / dtypeBytes[type] - middle * stride);
    move(
      ...([context, rest(to, value, axis.to), rest(from, dtype, axis.from), dtype] as const),
      axes.with(widest, { ...axis, extent: axis.extent - middle }),
    );
    return;
  }
  const padding = Array.from({ length: AXES - axes.length }, () => ({ extent: 1, from: 0, to: 0 }));
  context.dispatch(
    moveProgram(dtype),
    { source: from, output: to },
    { count, axes: [...padding, ...axes].flatMap(({ extent, from, to }) => [extent, from, to, 0]) },
    Math.ceil(count / WORKGROUP_SIZE),
  );
}

/** As `storeRounded`, for matrices that follow one another and may reach further than a binding shows. */
export const storeFarRounded: Readonly<Record<FloatType, typeof storeFarHalves | undefined>> = {
  f32: undefined,
  f16: storeFarHalves,
};

/** As `storeHalves`, for matrices that follow one another and may reach further than a binding shows. */
function storeFarHalves(
  context: KernelContext,
  source: BufferRegion,
  destination: BufferRegion,
  layout: Required<MatrixLayout>,
): void {
  const { batch, rows, columns, rowStride, batchStride } = layout;
  const extent = (batch - 1) * batchStride + (rows - 1) * rowStride + columns;
  const region = sliceOf(destination, "f16", 0, extent);
  const limit = windowBytes(context.features);
  if (windowOf(region) <= limit && windowOf(source) <= limit) {
    storeHalves(context, source, region, layout);
    return;
  }
  const axis = batch > 1 ? "batch" : rows > 1 ? "rows" : "columns";
  const [sourceStep, step] =
    axis === "batch" ? [rows * columns, batchStride] : axis === "rows" ? [columns, rowStride] : [1, 1];
  const middle = middleOf(layout[axis]);
  for (const [first, end] of [
    [0, middle],
    [middle, layout[axis]],
  ] as const)
    storeFarHalves(
      context,
      sliceOf(source, "f32", first * sourceStep, (end - first) * sourceStep),
      sliceOf(region, "f16", first * step, extent - first * step),
      { ...layout, [axis]: end - first },
    );
}
