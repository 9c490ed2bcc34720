import type { DeviceFeatures } from "../../context.js";
import { selectVariant } from "../variant.js";
import { type ConvShape, type ConvVariant, convVariants } from "./variants.js";

/** Chooses a kernel; `forced` names a variant that is taken wherever it fits. */
export function selectConv(shape: ConvShape, features: DeviceFeatures, forced?: string): ConvVariant {
  return selectVariant("conv2d", convVariants, shape, features, forced);
}
