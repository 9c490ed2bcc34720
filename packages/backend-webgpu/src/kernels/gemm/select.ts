import type { DeviceFeatures } from "../../context.js";
import { selectVariant } from "../variant.js";
import {
  BUSY_WORKGROUPS,
  type GemmShape,
  type GemmVariant,
  gemmVariants,
  isNarrow,
  type ThinVariant,
  type TiledVariant,
  tileCount,
} from "./variants.js";

/** What was chosen for one shape. */
export interface GemmChoice {
  readonly variant: GemmVariant;
  /** k is summed in parts of this length, each by workgroups of its own; k itself: no parts. */
  readonly partDepth: number;
}

/** Splitting k is not worth it for parts shorter than this. */
const SHORTEST_PART = 256;

/** Chooses a kernel; `forced` names a variant that is taken wherever it fits. */
export function selectGemm(shape: GemmShape, features: DeviceFeatures, forced?: string): GemmChoice {
  const variant = selectVariant("gemm", gemmVariants, shape, features, forced);
  // The direct kernels are for devices with few cores.
  if (variant.kind === "direct") return { variant, partDepth: shape.k };
  return { variant, partDepth: partDepth(shape, features, groupCount(shape, variant)) };
}

function groupCount(shape: GemmShape, variant: TiledVariant | ThinVariant): number {
  if (variant.kind === "tiled") return tileCount(shape, variant.tile);
  const places = variant.wide === "b" ? shape.n : shape.m;
  return Math.ceil(places / (variant.tile.span * (variant.contiguousDepth ? 1 : 4))) * shape.batch;
}

/** Long sums with few results would leave most of a GPU idle: several workgroups share each. */
function partDepth(shape: GemmShape, features: DeviceFeatures, groups: number): number {
  const wanted = isNarrow(features) ? 1 : Math.floor(BUSY_WORKGROUPS / groups);
  const parts = Math.min(wanted, Math.floor(shape.k / SHORTEST_PART));
  if (parts < 2) return shape.k;
  // Whole steps of every tile, and whole runs of four.
  return Math.ceil(shape.k / parts / 32) * 32;
}
