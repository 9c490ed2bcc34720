import { type BackendProvider, type ComputeBackend, toBackendError } from "@backplane/core";
import { planDevice } from "./device-plan.js";
import { CpuDriver } from "./driver.js";
import type { ResolvedOptions } from "./options.js";

/** What both entries offer to a registry. `backendOf` makes a backend from the driver. */
export function makeProvider(
  options: ResolvedOptions,
  backendOf: (driver: CpuDriver) => ComputeBackend,
): BackendProvider {
  return {
    name: "cpu",
    async probe() {
      try {
        return { available: true, device: planDevice(options).device };
      } catch (error) {
        return { available: false, reason: toBackendError(error, "UNSUPPORTED", "probe").message };
      }
    },
    create: () => backendOf(new CpuDriver(options)),
  };
}
