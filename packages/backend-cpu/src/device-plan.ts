import { BackendError, type DeviceDescription } from "@backplane/core";
import { detectFeatures, processorName } from "./features.js";
import type { Features } from "./kernels/kernel.js";
import type { BlasLibrary } from "./native/blas.js";
import type { ResolvedOptions } from "./options.js";

/** The setup of the device, as far as it is known without opening it. */
export interface DevicePlan {
  readonly features: Features;
  readonly threads: number;
  readonly blas: BlasLibrary | undefined;
  readonly device: DeviceDescription;
}

/** The features of the engine that the options allow. */
export function featuresInUse({ relaxedSimd }: ResolvedOptions): Features {
  const engine = detectFeatures();
  const { fewRegisters = false } = engine;
  return { relaxedSimd: engine.relaxedSimd && relaxedSimd !== false, fewRegisters };
}

/** Chooses features and threads. Throws `UNSUPPORTED` if there is no device. */
export function planDevice(options: ResolvedOptions): DevicePlan {
  const engine = detectFeatures();
  const missing = (what: string) => new BackendError("UNSUPPORTED", `cpu: ${what}`, { operation: "init" });
  if (!engine.simd) throw missing("this engine lacks WebAssembly SIMD");
  if (options.relaxedSimd === true && !engine.relaxedSimd)
    throw missing("relaxedSimd is true, but this engine lacks relaxed SIMD");
  const blas = options.parts.native?.findBlas(options.blas) ?? {};
  const features = { ...featuresInUse(options), blas: blas.found !== undefined };
  const expected = [...options.parts.set.variants].map(([operation, variants]) =>
    variants.expect(features, options.variants[operation], blas),
  );
  const threads = engine.whyNotShared === undefined ? options.threads : 0;
  const where = threads === 0 ? "on the calling thread" : `${threads} thread${threads === 1 ? "" : "s"}`;
  const model = processorName();
  return {
    features,
    threads,
    blas: expected.some(({ usesBlas }) => usesBlas) ? blas.found?.library : undefined,
    device: {
      kind: "cpu",
      name: `WebAssembly SIMD, ${where}`,
      software: false,
      details: {
        ...(model ? { processor: model } : {}),
        threads: String(threads),
        ...(threads < options.threads ? { threadsUnavailable: engine.whyNotShared! } : {}),
        relaxedSimd: features.relaxedSimd ? "in use" : engine.relaxedSimd ? "turned off" : "not available",
        ...Object.assign({}, ...expected.map(({ details }) => details)),
        ...(blas.unavailable === undefined ? {} : { blasUnavailable: blas.unavailable }),
      },
    },
  };
}
