export {
  fetchLavapipe,
  type HeadlessChromium,
  headlessChromium,
  type SoftwareAdapter,
  type SoftwareVulkan,
  softwareVulkan,
} from "./adapter.js";
export { cachedFolder } from "./cache.js";
export { type RunOptions, runCommand, runWithSoftwareAdapter } from "./run.js";
export { SoftwareAdapterUnavailable, unavailableReason } from "./unavailable.js";
