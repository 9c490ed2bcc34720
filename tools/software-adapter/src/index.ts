export { type HeadlessChromium, headlessChromium, type SoftwareVulkan, softwareVulkan } from "./adapter.js";
export { type RunOptions, runCommand, runWithSoftwareAdapter } from "./run.js";
export { SoftwareAdapterUnavailable, unavailableReason } from "./unavailable.js";
