import {
  type Availability,
  BackendError,
  type ComputeBackend,
  createBackend,
  toBackendError,
} from "@backplane/core";
import { adoptDevice, inspectAdapter, requestAdapter } from "./device.js";
import { WebGpuDriver } from "./driver.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";
import type { FindGpu, NativeBuffer } from "./native.js";
import { checkOptions, type WebGpuOptions } from "./options.js";
import { plannedPrograms } from "./warmup.js";

/** The parts of the public interface that differ between platforms only by how they find WebGPU. */
export function makeProvider(findGpu: FindGpu, options: WebGpuOptions): WebGpuProvider {
  checkOptions(options);
  return {
    name: "webgpu",
    create: () => makeBackend(findGpu, options),
    async probe(): Promise<Availability> {
      try {
        if (options.device !== undefined)
          return { available: true, device: (await adoptDevice(options.device, options)).description };
        const adapter = await requestAdapter(options.adapter ? undefined : await findGpu(), options);
        return { available: true, device: inspectAdapter(adapter, options).description };
      } catch (error) {
        return { available: false, reason: toBackendError(error, "UNSUPPORTED", "probe").message };
      }
    },
  };
}

function makeBackend(findGpu: FindGpu, options: WebGpuOptions): WebGpuBackend {
  const driver = new WebGpuDriver(findGpu, options);
  const backend = createBackend(driver);
  /** Waits for work of the device, unless the backend has closed: then it rejects with that. */
  const settled = async <Result>(operation: string, work: Promise<Result>): Promise<Result> => {
    try {
      return await work;
    } catch (error) {
      backend.assertOpen(operation);
      throw error;
    }
  };
  const own: Omit<WebGpuBackend, keyof ComputeBackend> = {
    importBuffer(buffer, importOptions = {}) {
      backend.assertOpen("importBuffer");
      const memory = driver.importBuffer(buffer, importOptions);
      return backend.adopt(memory, memory.bytes);
    },
    exportBuffer(handle) {
      const buffer = backend.native(handle) as NativeBuffer | undefined;
      if (buffer === undefined)
        throw new BackendError(
          "INVALID_ARGUMENT",
          "exportBuffer: handle is an allocation of 0 bytes; allowed: those that have a buffer",
          { operation: "exportBuffer", argument: "handle" },
        );
      return { buffer, byteOffset: 0, byteLength: driver.exportedBytes(buffer) };
    },
    async profile(work, profileOptions = {}) {
      const operation = "profile";
      backend.assertOpen(operation);
      checkFunction(operation, "work", work);
      const { profiling } = driver;
      const profiler = profiling.start(profileOptions);
      try {
        const result = await work();
        backend.assertOpen(operation);
        if (!profiling.stop(profiler))
          throw new BackendError("DEVICE_LOST", "profile: the device that it measured was lost meanwhile", {
            operation,
          });
        await backend.synchronize();
        return await settled(operation, profiler.finish(result));
      } finally {
        profiling.stop(profiler);
        profiler.destroy();
      }
    },
    async warmup(plan, warmupOptions = {}) {
      const operation = "warmup";
      backend.assertOpen(operation);
      checkFunction(operation, "plan", plan);
      const { onProgress } = warmupOptions;
      if (onProgress !== undefined) checkFunction(operation, "onProgress", onProgress);
      const { device, limits, numerics } = backend.capabilities;
      const programs = await plannedPrograms(driver.plan({ device, limits, numerics }), backend, plan);
      backend.assertOpen(operation);
      return settled(operation, driver.prepare(programs, warmupOptions));
    },
    async loseDevice() {
      const device = backend.native() as GPUDevice;
      device.destroy();
      await device.lost;
    },
  };
  return Object.assign(backend, own);
}

function checkFunction(operation: string, argument: string, value: unknown): void {
  if (typeof value === "function") return;
  throw new BackendError(
    "INVALID_ARGUMENT",
    `${operation}: ${argument} is ${String(value)}; allowed: a function`,
    { operation, argument },
  );
}
