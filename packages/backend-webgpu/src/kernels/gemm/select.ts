import type { DeviceFeatures } from "../../device/index.js";
import { isNarrow } from "../machine.js";
import { selectVariant } from "../variant.js";
import { partDepth, tileCount } from "./rounds.js";
import type { GemmShape } from "./shape.js";
import { thinSpan } from "./thin.wgsl.js";
import {
  type DirectVariant,
  type GemmVariant,
  gemmVariants,
  type PackedVariant,
  type RowVariant,
  type SplitVariant,
} from "./variants.js";

type Splittable = Exclude<GemmVariant, DirectVariant | SplitVariant | PackedVariant | RowVariant>;

/** The choice for one shape. */
export interface GemmChoice {
  readonly variant: GemmVariant;
  /** k is summed in parts of this length, each by workgroups of its own; k itself: no parts. */
  readonly partDepth: number;
}

/** Chooses a kernel; `forced` names a variant that is taken wherever it fits. */
export function selectGemm(shape: GemmShape, features: DeviceFeatures, forced?: string): GemmChoice {
  const variant = selectVariant("gemm", gemmVariants, shape, features, forced);
  switch (variant.kind) {
    // For devices with few cores.
    case "direct":
    // For many results.
    case "split":
    case "packed":
    // Many invocations share each sum anyway.
    case "row":
      return { variant, partDepth: shape.k };
  }
  if (isNarrow(features)) return { variant, partDepth: shape.k };
  return { variant, partDepth: partDepth(shape.k, groupCount(shape, variant), variant.busy) };
}

/** Returns the workgroups of a variant if k is not split. */
function groupCount(shape: GemmShape, variant: Splittable): number {
  if (variant.kind !== "thin") return tileCount(shape, variant.tile);
  const { wide, contiguousDepth, tile } = variant;
  const [places, vector] = wide === "b" ? [shape.n, shape.vectorB] : [shape.m, shape.vectorA];
  return Math.ceil(places / thinSpan(tile, { contiguousDepth, vector })) * shape.batch;
}
