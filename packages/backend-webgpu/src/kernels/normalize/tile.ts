import type { FloatType, NormalizeKind } from "@backplane/core";
import type { LaneCount, Vector } from "../rows/index.js";

/** What the kernels that write results have in common. */
export interface ResultTile {
  readonly dtype: FloatType;
  readonly vector: Vector;
  /** Whether there is a weight or a bias; a parameter says which. */
  readonly affine: boolean;
  /** Whether the output is also the input. */
  readonly inPlace: boolean;
}

/** A kernel with whole rows in registers. */
export interface RegisterTile extends ResultTile {
  readonly kind: NormalizeKind;
  /** Invocations that share a row, and the loads that each of them holds. */
  readonly lanes: LaneCount;
  readonly values: number;
  /** Whether it stores the statistics. */
  readonly stores: boolean;
}

/** A kernel that makes moments of data, or joins moments. */
export interface MomentsTile {
  readonly source: FloatType | "moments";
  /** Moments join alike, whatever they are of. */
  readonly kind: NormalizeKind | undefined;
  readonly vector: 1 | 4;
  readonly lanes: LaneCount;
}

/** Bits of the parameter `uses`. */
export const USES_WEIGHT = 1;
export const USES_BIAS = 2;
