export { cachedFolder } from "@backplane/debian";
export {
  fetchLavapipe,
  type HeadlessChromium,
  headlessChromium,
  type SoftwareAdapter,
  type SoftwareVulkan,
  softwareVulkan,
} from "./adapter.js";
export { restartReason, restartWithSoftwareAdapter } from "./restart.js";
export { type RunOptions, runCommand, runWithSoftwareAdapter } from "./run.js";
export { SoftwareAdapterUnavailable, unavailableReason } from "./unavailable.js";
