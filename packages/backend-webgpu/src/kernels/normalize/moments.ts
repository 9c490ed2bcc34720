import type { NormalizeProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import {
  type BufferRegion,
  type DeviceMemory,
  type KernelContext,
  type OperationContext,
  WINDOW_ALIGNMENT,
} from "../../runtime/index.js";
import { planJoin, planStatistics, type StatisticsPlan } from "../rows/index.js";
import { windowBytes } from "../segments/index.js";
import { momentsProgram } from "./passes.wgsl.js";
import type { MomentsTile } from "./tile.js";

/** Bytes of the moments of a part of a row. */
export const MOMENTS = 16;

const momentsOf = memoized(momentsProgram);

/** What moments depend on. */
export type MomentsProblem = Pick<
  NormalizeProblem<DeviceMemory>,
  "dtype" | "kind" | "rows" | "size" | "epsilon" | "input"
>;

/** moments[row], finished or to be joined with others. */
export function runMoments(
  context: KernelContext,
  problem: MomentsProblem,
  moments: BufferRegion,
  finish: boolean,
): void {
  const { dtype, kind, rows, size, epsilon, input } = problem;
  const most = Math.max(1, Math.floor(windowBytes(context.features) / (MOMENTS * rows)));
  const extents = { outer: rows, length: size, inner: 1 };
  const plan = planStatistics(dtype, extents, [input.byteOffset], most);
  if (plan.segments === 1) measure(context, dtype, kind, plan, input, moments, epsilon, finish);
  else {
    const parts = context.scratch(MOMENTS * rows * plan.segments);
    measure(context, dtype, kind, plan, input, parts, epsilon, false);
    runJoin(context, rows, plan.segments, parts, moments, epsilon, finish);
  }
}

/** moments[row] of parts[segment * rows + row] */
function runJoin(
  context: KernelContext,
  rows: number,
  segments: number,
  parts: BufferRegion,
  moments: BufferRegion,
  epsilon: number,
  finish: boolean,
): void {
  measure(context, "moments", undefined, planJoin(rows, segments), parts, moments, epsilon, finish);
}

function measure(
  context: KernelContext,
  source: MomentsTile["source"],
  kind: MomentsTile["kind"],
  { vector, lanes, rows, length, segments, segmentLength, rowBlocks }: StatisticsPlan,
  data: BufferRegion,
  moments: BufferRegion,
  epsilon: number,
  finish: boolean,
): void {
  context.dispatch(
    momentsOf({ source, kind, vector: vector === 4 ? 4 : 1, lanes }),
    { data, moments },
    {
      rows,
      length,
      segment_length: segmentLength,
      row_blocks: rowBlocks,
      epsilon,
      finish: finish ? 1 : 0,
    },
    rowBlocks * segments,
  );
}

/** moments of the parts of one row, of which there may be more than a window shows */
export function joinAll(
  context: OperationContext,
  count: number,
  parts: BufferRegion,
  moments: BufferRegion,
  epsilon: number,
): void {
  const most = Math.floor((windowBytes(context.features) - WINDOW_ALIGNMENT) / MOMENTS);
  const some = (region: BufferRegion, first: number, length: number): BufferRegion => ({
    ...region,
    byteOffset: region.byteOffset + MOMENTS * first,
    byteLength: MOMENTS * length,
  });
  if (count <= most) {
    runJoin(context, 1, count, parts, moments, epsilon, true);
    return;
  }
  const joins = Math.ceil(count / most);
  const joined = context.scratch(MOMENTS * joins);
  for (let i = 0; i < joins; i++)
    context.scoped((scope) => {
      const length = Math.min(most, count - i * most);
      runJoin(scope, 1, length, some(parts, i * most, length), some(joined, i, 1), epsilon, false);
    });
  joinAll(context, joins, joined, moments, epsilon);
}
