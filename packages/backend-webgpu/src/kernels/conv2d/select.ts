import type { DeviceFeatures } from "../../device/index.js";
import { isNarrow } from "../machine.js";
import { tileThreads } from "../tiles/index.js";
import { selectVariant } from "../variant.js";
import { type ConvShape, type ConvVariant, convTileCount, convVariants } from "./variants.js";

/** The choice for one shape. */
export interface ConvChoice {
  readonly variant: ConvVariant;
  /** Taps are summed in parts of this length, each by workgroups of its own; all of them: no parts. */
  readonly partDepth: number;
}

/** The invocations of six workgroups of 64 on each of 132 multiprocessors. */
const BUSY_INVOCATIONS = 6 * 64 * 132;

/** Splitting is not worth it for shorter sums, and for shorter parts. */
const SHORTEST_SUM = 512;
const SHORTEST_PART = 128;

/** Chooses a kernel; `forced` names a variant that is taken wherever it fits. */
export function selectConv(shape: ConvShape, features: DeviceFeatures, forced?: string): ConvChoice {
  const variant = selectVariant("conv2d", convVariants, shape, features, forced);
  return { variant, partDepth: partDepth(shape, features, variant) };
}

/** Long sums with few results would leave most of a GPU idle: several workgroups share each. */
function partDepth(shape: ConvShape, features: DeviceFeatures, variant: ConvVariant): number {
  const { taps } = shape;
  if (variant.kind !== "implicit" || isNarrow(features)) return taps;
  const invocations = convTileCount(shape, variant.tile) * tileThreads(variant.tile).total;
  const wanted = Math.floor(BUSY_INVOCATIONS / invocations);
  const parts = Math.min(wanted, Math.floor(taps / SHORTEST_PART));
  if (parts < 2 || taps < SHORTEST_SUM) return taps;
  // Whole steps of every tile, and whole runs of four.
  return Math.ceil(taps / parts / 32) * 32;
}
