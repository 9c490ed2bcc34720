/** The features of a device and the requirements on it: plain data, without a device. */
export { familyOf, general, softwareFamily } from "./families.js";
export type { DeviceFeatures, DeviceLimits, TunedVariants } from "./features.js";
export type { FindGpu, NativeAdapter, NativeBuffer, NativeDevice, NativeGpu } from "./native.js";
export { type DeviceOptions, type F32Products, f32ProductNames } from "./options.js";
export type { TuningAdapter, TuningPlace } from "./place.js";
export {
  chooseTier,
  defaultLimits,
  limitNames,
  type TierChoice,
  type TierOffer,
  tierFeatures,
  tierNames,
  type WebGpuTier,
} from "./tiers.js";
