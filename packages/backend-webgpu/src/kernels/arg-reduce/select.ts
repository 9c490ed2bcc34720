import { dtypeBytes } from "@backplane/core";
import { type ComputedType, layouts, WORKGROUP_SIZE } from "../../program/index.js";
import type { Extents, SegmentedRows } from "../rows/index.js";
import { type ArgReduceTile, type LaneCount, laneCounts } from "./arg-reduce.wgsl.js";

/** A pass over rows. */
export interface ArgReducePlan extends Pick<ArgReduceTile, "along" | "vector" | "lanes">, SegmentedRows {}

/**
 * Enough workgroups to fill the largest devices; more segments than that only make more pairs. Columns: four for each multiprocessor of
 * an H100.
 */
const TARGET_WORKGROUPS = { length: 2048, inner: 528 } as const;

/** If fewer invocations than this would run, more of them share a row. */
const BUSY_INVOCATIONS = 65_536;

/** Loads that an invocation should have before more of them share a row, and after rows are cut into segments. */
const LOADS_PER_LANE = 16;

/** If several invocations share a row, there are at least so many, which read neighbouring lines of memory. */
const LEAST_LANES = 16;

/** Elements of a segment, if a row has several. */
export const leastSegment: number = LEAST_LANES * LOADS_PER_LANE;

export function planArgReduce(
  dtype: ComputedType,
  { outer, length, inner }: Extents,
  byteOffset: number,
  maxSegments: number = Number.POSITIVE_INFINITY,
): ArgReducePlan {
  const along = inner === 1 ? "length" : "inner";
  const run = inner === 1 ? length : inner;
  const fits = (size: number) => run % size === 0 && byteOffset % (size * dtypeBytes[dtype]) === 0;
  const isInEights = along === "length" && layouts[dtype].perBlock === 8;
  const vector = isInEights && fits(8) ? 8 : fits(4) ? 4 : 1;
  const loads =
    along === "length"
      ? { rows: outer, length: length / vector, inner: 1 }
      : { rows: (outer * inner) / vector, length, inner: inner / vector };
  const wanted =
    along === "inner"
      ? Math.min(Math.max(BUSY_INVOCATIONS / loads.rows, 1), length / 4)
      : Math.max(loads.length / LOADS_PER_LANE, Math.min(loads.length / 4, BUSY_INVOCATIONS / loads.rows));
  const most = along === "inner" ? lanesBeside(loads.rows) : WORKGROUP_SIZE;
  const lanes = lanesFor(Math.min(Math.max(wanted, Math.min(LEAST_LANES, loads.length / 4)), most));
  return { along, vector, lanes, ...loads, ...cut(along, loads, lanes, maxSegments) };
}

/** For pairs of `segments` segments of rows, each as far from the next as there are rows. */
export function planJoin(rows: number, segments: number): ArgReducePlan {
  const lanes = lanesFor(Math.min(lanesBeside(rows), segments));
  const loads = { rows, length: segments, inner: rows };
  return { along: "inner", vector: 1, lanes, ...loads, ...cut("inner", loads, lanes, 1) };
}

function cut(
  along: ArgReduceTile["along"],
  { rows, length }: Pick<ArgReducePlan, "rows" | "length">,
  lanes: LaneCount,
  maxSegments: number,
) {
  const rowBlocks = Math.ceil((rows * lanes) / WORKGROUP_SIZE);
  const worthwhile = Math.floor(length / (lanes * LOADS_PER_LANE));
  const pieces = Math.max(
    1,
    Math.min(Math.ceil(TARGET_WORKGROUPS[along] / rowBlocks), worthwhile, maxSegments),
  );
  const segmentLength = Math.ceil(length / pieces);
  return { segments: Math.ceil(length / segmentLength), segmentLength, rowBlocks };
}

/** The most invocations that share a row if the rows of a workgroup are to be neighbours in memory. */
function lanesBeside(rows: number): number {
  return Math.max(WORKGROUP_SIZE / rows, LEAST_LANES);
}

function lanesFor(wanted: number): LaneCount {
  return laneCounts.find((count) => count >= wanted) ?? WORKGROUP_SIZE;
}
