import {
  type Availability,
  BackendError,
  Checks,
  type ComputeBackend,
  checkNames,
  type DriverBackend,
  type KnownOperations,
  toBackendError,
} from "@backplane/core";
import { checkOptions } from "./check-options.js";
import type { FindGpu, NativeBuffer } from "./device/index.js";
import { WebGpuDriver } from "./driver.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";
import type { KernelSet } from "./kernels/index.js";
import type { WebGpuOptions } from "./options.js";
import { adoptDevice, type DeviceMemory, inspectAdapter, loaded, requestAdapter } from "./runtime/index.js";
import type { TuningMeans } from "./tuning/index.js";

/** The kernels of a backend, and how core makes one of a driver that has them. */
export interface BackendKernels {
  readonly set: KernelSet;
  readonly known: KnownOperations;
  make(driver: WebGpuDriver): DriverBackend<DeviceMemory>;
}

/**
 * The parts of the public interface that differ between platforms only by how they find WebGPU.
 * `means` are for tests.
 */
export function makeProvider(
  findGpu: FindGpu,
  kernels: BackendKernels,
  options: WebGpuOptions,
  means: TuningMeans = {},
): WebGpuProvider {
  checkOptions(options, kernels.set);
  return {
    name: "webgpu",
    create: () => makeBackend(findGpu, kernels, options, means),
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

function makeBackend(
  findGpu: FindGpu,
  { set, known, make }: BackendKernels,
  options: WebGpuOptions,
  means: TuningMeans,
): WebGpuBackend {
  const driver = new WebGpuDriver(findGpu, set, options);
  const backend = make(driver);
  /** Waits for work of the device, unless the backend has closed: then it rejects with that. */
  const settled = async <Result>(operation: string, work: Promise<Result>): Promise<Result> => {
    try {
      return await work;
    } catch (error) {
      backend.assertOpen(operation);
      throw error;
    }
  };
  let isTuning = false;
  const tuned: WebGpuBackend["tune"] = async (plan, tuneOptions = {}) => {
    const device = driver.tuningMeans(() => backend.synchronize());
    const { planMeans } = driver;
    // Few programs tune, so these modules are loaded when one does.
    const { tunePlanned } = await loaded("tune", import("./tuning/planned.js"));
    backend.assertOpen("tune");
    const findings = await tunePlanned(
      { ...{ backend, known, planMeans, device, means }, options: tuneOptions },
      plan,
    );
    return { tuning: driver.tuning, ...findings };
  };
  const own: Omit<WebGpuBackend, keyof ComputeBackend> = {
    importBuffer(buffer, importOptions = {}) {
      backend.assertOpen("importBuffer");
      checkNames("importBuffer", importOptions, ["bytes"]);
      const memory = driver.importBuffer(buffer, importOptions);
      return backend.adopt(memory, memory.bytes);
    },
    exportBuffer(handle) {
      backend.assertOpen("exportBuffer");
      const buffer = backend.native(handle) as NativeBuffer | undefined;
      if (buffer === undefined)
        return new Checks("exportBuffer").fail(
          "handle",
          "is an allocation of 0 bytes; allowed: those that have a buffer",
        );
      return { buffer, byteOffset: 0, byteLength: driver.exportedBytes(buffer) };
    },
    async profile(work, profileOptions = {}) {
      const operation = "profile";
      backend.assertOpen(operation);
      checkFunction(operation, "work", work);
      checkNames(operation, profileOptions, ["maxTraceEvents"]);
      // Few programs measure, so this module is loaded when one does.
      const { startProfile } = await loaded(operation, import("./profile/profiler.js"));
      backend.assertOpen(operation);
      const { profiling } = driver;
      const profiler = startProfile(profiling, profileOptions);
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
      checkNames(operation, warmupOptions, ["onProgress"]);
      const { onProgress } = warmupOptions;
      if (onProgress !== undefined) checkFunction(operation, "onProgress", onProgress);
      const { planMeans } = driver;
      // Few programs warm up, so this module is loaded when one does.
      const { PlanDriver, rehearse } = await loaded(operation, import("./warmup/warmup.js"));
      backend.assertOpen(operation);
      const planned = new PlanDriver(planMeans, backend.capabilities);
      await rehearse(planned, backend, known, plan);
      backend.assertOpen(operation);
      return settled(operation, driver.prepare(planned.programs, warmupOptions));
    },
    async tune(plan, tuneOptions = {}) {
      const operation = "tune";
      backend.assertOpen(operation);
      checkFunction(operation, "plan", plan);
      if (isTuning)
        throw new BackendError("BUSY", "tune: it runs already; allowed: one at a time", { operation });
      isTuning = true;
      try {
        return await settled(operation, tuned(plan, tuneOptions));
      } finally {
        isTuning = false;
      }
    },
    get tuning() {
      backend.assertOpen("tuning");
      return driver.tuning;
    },
    async loseDevice() {
      const device = backend.native() as GPUDevice;
      device.destroy();
      await device.lost;
    },
  };
  return Object.defineProperties(backend, Object.getOwnPropertyDescriptors(own)) as typeof backend &
    typeof own;
}

function checkFunction(operation: string, argument: string, value: unknown): void {
  if (typeof value !== "function")
    new Checks(operation).fail(argument, `is ${String(value)}; allowed: a function`);
}
