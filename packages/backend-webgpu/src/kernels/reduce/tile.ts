import type { ReducedType, ReduceKind } from "@backplane/core";

/** Invocations of a workgroup. */
export const REDUCE_WORKGROUP: 256 = 256;

/**
 * How two values become one. A mean is a sum that is divided at its end. Of truth values, which are bytes or u32, any joins what is
 * true and all what is false; results are 0 or 1.
 */
export type ReduceOperator = Exclude<ReduceKind, "mean">;

/** Few numbers, because each makes another program to compile. */
export type LaneCount = 1 | 4 | 16 | 64 | 256;
export const laneCounts: readonly LaneCount[] = [1, 4, 16, 64, REDUCE_WORKGROUP];

/** The properties of one generated kernel; everything else is a parameter. */
export interface ReduceTile {
  readonly dtype: ReducedType;
  readonly operator: ReduceOperator;
  /** Invocations that share one output: a number, or a subgroup of any size. */
  readonly lanes: LaneCount | "subgroup";
  /** Neighbouring invocations read neighbours along the reduced axes, or along the kept ones. */
  readonly along: "reduced" | "kept";
  /** Whether a load takes `elementsPerLoad` elements along the innermost axis of the kind that `along` names. */
  readonly wide: boolean;
  /** Whether there is only one reduced axis, so that places need no division. */
  readonly single: boolean;
  /** Rows of the table of axes: the kept ones, then the reduced ones. */
  readonly axes: number;
}
