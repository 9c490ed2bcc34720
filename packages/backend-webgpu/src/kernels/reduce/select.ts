import { type Axis, dtypeBytes, type ReducedType } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import { count, flag, oneOf, type ShapeFields } from "../fields.js";
import { isNarrow } from "../machine.js";
import { selectVariant, type Variant } from "../variant.js";
import { elementsPerLoad } from "./loads.wgsl.js";
import { type LaneCount, laneCounts, REDUCE_WORKGROUP, type ReduceTile } from "./tile.js";

/** One pass over the data: a shape and its place. */
export interface ReduceShape {
  readonly dtype: ReducedType;
  readonly kept: readonly Axis[];
  readonly reduced: readonly Axis[];
  readonly outputCount: number;
  readonly reducedCount: number;
  /** The start of the input. */
  readonly byteOffset: number;
}

/** How one pass is done. */
export interface ReducePlan extends Pick<ReduceTile, "lanes" | "along" | "wide" | "single"> {
  /** Elements per load. */
  readonly vector: number;
  /** Outputs, or vectors of outputs if these lie along the loads. */
  readonly outputs: number;
  /** Loads per output. */
  readonly length: number;
  /** The reduced elements of an output are cut into segments of this many loads, each a partial result. */
  readonly segmentLength: number;
  readonly segments: number;
  /** Outputs (or vectors) that one workgroup does. */
  readonly slots: number;
  /** Workgroups for one segment of all outputs. */
  readonly outputBlocks: number;
}

/**
 * Enough workgroups to fill the largest devices; more segments than that only make more partial results. Along kept axes four for
 * each multiprocessor of an H100 are best, whose invocations have the more loads.
 */
const TARGET_WORKGROUPS = { reduced: 4096, kept: 528 } as const;

/** The size of subgroups if a device does not report it: any other would be correct, too. */
const USUAL_SUBGROUP = 32;

/** If fewer invocations than this would run, more of them share an output. */
const BUSY_INVOCATIONS = 65_536;

/**
 * Most loads of an invocation before more of them share an output: an invocation with only a few loads does
 * little else than share. For wide loads, those of eight f16, narrow ones, and either if `BUSY_INVOCATIONS` would not run.
 */
const LOADS_PER_LANE = { wide: 32, eights: 16, narrow: 96, few: 4 } as const;

/** Loads that an invocation should have left after outputs are cut into segments. */
const LOADS_PER_LANE_OF_SEGMENT = 16;

/** Outputs side by side that are worth reading across rather than along the reduced axes. */
const MIN_NEIGHBOURS = 16;

/** If neighbouring invocations have different outputs, this many still share one: more if outputs are few or long. */
const LANES_ACROSS = { least: 4, usual: 16 } as const;

/** Narrow loads per output from which on a subgroup is kept busy by one output. */
const LOADS_OF_SUBGROUP = 192;

/** From this number of outputs on, most subgroups of a workgroup have one, if the barriers of a tree are expensive. */
const OUTPUTS_OF_EMULATION = 16;

/** The facts on which a choice between variants is based, besides the device. */
export interface ReduceLoads extends Pick<ReducePlan, "along" | "wide" | "length" | "outputs"> {
  readonly dtype: ReducedType;
}

const reducedType = oneOf("f32", "f16", "i32", "u32", "u8");

export const reduceFields: ShapeFields<ReduceLoads> = {
  ...{ dtype: reducedType, along: oneOf("kept", "reduced"), wide: flag, length: count, outputs: count },
};

interface ReduceVariant extends Variant<ReduceLoads> {
  /** Returns the invocations per output, as far as they are known. */
  lanes(loads: ReduceLoads, features: DeviceFeatures): number;
}

/**
 * If rows begin anywhere, loads are narrow, and whole subgroups at neighbouring elements make the best of
 * each memory transaction. Otherwise few invocations per output do as well, with a tree of few steps; but on
 * an emulated GPU, subgroups are two to ten times as fast as a tree of any height.
 */
export const reduceVariants: readonly ReduceVariant[] = [
  {
    name: "subgroups",
    requires: ({ subgroups }) => subgroups,
    fits: ({ along }) => along === "reduced",
    prefers: ({ wide, length, outputs }, features) => {
      if (isNarrow(features)) return length > LOADS_PER_LANE.few && outputs >= OUTPUTS_OF_EMULATION;
      return !wide && length >= LOADS_OF_SUBGROUP && outputs * USUAL_SUBGROUP >= BUSY_INVOCATIONS;
    },
    lanes: (_, { subgroupMaxSize }) => subgroupMaxSize || USUAL_SUBGROUP,
  },
  {
    name: "workgroups",
    requires: () => true,
    fits: () => true,
    prefers: () => true,
    lanes: ({ dtype, along, wide, length, outputs }) => {
      if (along === "kept") {
        const { least, usual } = LANES_ACROSS;
        const isShared = length >= usual * LOADS_PER_LANE_OF_SEGMENT || outputs * usual <= BUSY_INVOCATIONS;
        return lanesFor(REDUCE_WORKGROUP / outputs, isShared ? usual : least);
      }
      const { few, narrow, wide: whole, eights } = LOADS_PER_LANE;
      const most = wide ? (dtype === "f16" ? eights : whole) : narrow;
      const busy = Math.min(length / few, BUSY_INVOCATIONS / outputs);
      return lanesFor(Math.max(length / most, busy), length > few ? 4 : 1);
    },
  },
];

/**
 * Depends on the shape, and on the subgroups that a device has, alone: so that devices alike in that cut
 * sums alike. `forced` names a variant to take wherever it fits.
 */
export function planReduce(
  shape: ReduceShape,
  features: DeviceFeatures,
  forced?: string,
  maxSegments: number = Number.POSITIVE_INFINITY,
): ReducePlan {
  const { dtype, kept, reduced, outputCount, reducedCount } = shape;
  const inner = kept.at(-1);
  const along = inner?.stride === 1 && inner.extent >= MIN_NEIGHBOURS ? "kept" : "reduced";
  const most = elementsPerLoad(dtype, along);
  const wide = canBeWide(shape, along, most);
  const vector = wide ? most : 1;
  const [outputs, length] =
    along === "kept" ? [outputCount / vector, reducedCount] : [outputCount, reducedCount / vector];
  const loads: ReduceLoads = { dtype, along, wide, length, outputs };
  const variant = selectVariant("reduce", reduceVariants, loads, features, forced);
  const sharers = variant.lanes(loads, features);
  // A subgroup takes so many outputs that it has as many loads as an invocation has elsewhere.
  const turns = variant.name === "subgroups" ? Math.ceil((LOADS_PER_LANE.wide * sharers) / length) : 1;
  const slots = (REDUCE_WORKGROUP / sharers) * turns;
  const outputBlocks = Math.ceil(outputs / slots);
  const worthwhile = Math.floor(length / (sharers * LOADS_PER_LANE_OF_SEGMENT));
  const wanted = Math.min(Math.ceil(TARGET_WORKGROUPS[along] / outputBlocks), worthwhile, maxSegments);
  const segmentLength = Math.ceil(length / Math.max(wanted, 1));
  const segments = Math.ceil(length / segmentLength);
  const lanes = variant.name === "subgroups" ? "subgroup" : (sharers as LaneCount);
  const single = reduced.length === 1;
  // Without spreading, which would take longer than choosing.
  return {
    lanes,
    along,
    wide,
    single,
    vector,
    outputs,
    length,
    segmentLength,
    segments,
    slots,
    outputBlocks,
  };
}

/**
 * Whether the innermost axis is one that loads go along, of whole and aligned vectors. The input is
 * contiguous, so that all other strides are multiples of its extent.
 */
function canBeWide(
  { dtype, kept, reduced, byteOffset }: ReduceShape,
  along: ReduceTile["along"],
  elements: number,
): boolean {
  const inner = (along === "kept" ? kept : reduced).at(-1);
  return (
    byteOffset % (along === "kept" ? elements * dtypeBytes[dtype] : 16) === 0 &&
    inner?.stride === 1 &&
    inner.extent % elements === 0
  );
}

function lanesFor(wanted: number, least: LaneCount): LaneCount {
  return laneCounts.find((count) => count >= Math.max(wanted, least)) ?? REDUCE_WORKGROUP;
}
