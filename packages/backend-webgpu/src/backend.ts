import {
  type Availability,
  type BackendProvider,
  type ComputeBackend,
  createBackend,
  toBackendError,
} from "@backplane/core";
import { adoptDevice, describeAdapter, requestAdapter, type WebGpuOptions } from "./device.js";
import { WebGpuDriver } from "./driver.js";
import { checkForced } from "./kernels/forced.js";

/** Finds what the platform has in place of `navigator.gpu`; undefined where it has none. */
export type FindGpu = () => Promise<GPU | undefined>;

/** The parts of the public interface that differ between platforms only by how they find WebGPU. */
export function makeProvider(findGpu: FindGpu, options: WebGpuOptions): BackendProvider {
  checkForced(options.variants ?? {});
  return {
    name: "webgpu",
    create: (): ComputeBackend => createBackend(new WebGpuDriver(findGpu, options)),
    async probe(): Promise<Availability> {
      try {
        if (options.device !== undefined)
          return { available: true, device: adoptDevice(options.device, options).description };
        const adapter = await requestAdapter(await findGpu(), options);
        return { available: true, device: describeAdapter(adapter.info, []) };
      } catch (error) {
        return { available: false, reason: toBackendError(error, "UNSUPPORTED", "probe").message };
      }
    },
  };
}
