import type { Axis, DType } from "@backplane/core";
import {
  elementsPerLoad,
  type LaneCount,
  laneCounts,
  REDUCE_WORKGROUP,
  type ReduceTile,
} from "./reduce.wgsl.js";

/** One pass over the data: a shape and where it lies. */
export interface ReduceShape {
  readonly dtype: DType;
  readonly kept: readonly Axis[];
  readonly reduced: readonly Axis[];
  readonly outputCount: number;
  readonly reducedCount: number;
  /** Where the input starts. */
  readonly byteOffset: number;
}

/** How one pass is done. */
export interface ReducePlan extends Pick<ReduceTile, "lanes" | "along" | "wide" | "single"> {
  /** Elements per load. */
  readonly vector: number;
  /** Loads per output. */
  readonly length: number;
  /** The reduced elements of an output are cut into segments of this many loads, each a partial result. */
  readonly segmentLength: number;
  readonly segments: number;
  /** Workgroups for one segment of all outputs. */
  readonly outputBlocks: number;
}

/** Enough workgroups to fill the largest devices; more segments than that only make more partial results. */
const TARGET_WORKGROUPS = 1024;

/** Loads per invocation, roughly, before an output is shared by fewer invocations: as many as are unrolled. */
const LOADS_PER_LANE = 4;

/** Loads that an invocation should have left after outputs are cut into segments. */
const LOADS_PER_LANE_OF_SEGMENT = 16;

/** Outputs side by side that are worth reading across rather than along the reduced axes. */
const MIN_NEIGHBOURS = 16;

/** Where neighbouring invocations have different outputs, this many still share one. */
const MIN_LANES_ACROSS = 4;

/** Depends on the shape alone, so that all devices add in the same order. */
export function planReduce(shape: ReduceShape, maxSegments: number = Number.POSITIVE_INFINITY): ReducePlan {
  const { dtype, kept, reduced, outputCount, reducedCount } = shape;
  const inner = kept.at(-1);
  const along = inner?.stride === 1 && inner.extent >= MIN_NEIGHBOURS ? "kept" : "reduced";
  const wide = along === "reduced" && canBeWide(shape);
  const vector = elementsPerLoad({ dtype, wide });
  const length = reducedCount / vector;
  const lanes =
    along === "kept"
      ? lanesFor(REDUCE_WORKGROUP / outputCount, MIN_LANES_ACROSS)
      : lanesFor(length / LOADS_PER_LANE, 1);
  const outputBlocks = Math.ceil(outputCount / (REDUCE_WORKGROUP / lanes));
  const worthwhile = Math.floor(length / (lanes * LOADS_PER_LANE_OF_SEGMENT));
  const wanted = Math.min(Math.ceil(TARGET_WORKGROUPS / outputBlocks), worthwhile, maxSegments);
  const segmentLength = Math.ceil(length / Math.max(wanted, 1));
  const segments = Math.ceil(length / segmentLength);
  const single = reduced.length === 1;
  return { lanes, along, wide, single, vector, length, segmentLength, segments, outputBlocks };
}

/**
 * Whether the innermost axis is a reduced one of whole, aligned vectors. The input is contiguous, so that
 * all other strides are multiples of its extent.
 */
function canBeWide({ dtype, reduced, byteOffset }: ReduceShape): boolean {
  const inner = reduced.at(-1);
  return (
    byteOffset % 16 === 0 &&
    inner?.stride === 1 &&
    inner.extent % elementsPerLoad({ dtype, wide: true }) === 0
  );
}

function lanesFor(wanted: number, least: LaneCount): LaneCount {
  return laneCounts.find((count) => count >= Math.max(wanted, least)) ?? REDUCE_WORKGROUP;
}
