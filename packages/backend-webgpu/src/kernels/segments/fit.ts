import type { DeviceFeatures } from "../../device/index.js";
import type { Program } from "../../program/index.js";
import type {
  BufferRegion,
  DeviceMemory,
  KernelContext,
  KernelDefinition,
  ParameterValues,
} from "../../runtime/index.js";
import { windowBytes, windowOf } from "./regions.js";

/** Runs a kernel only to learn the sizes of its bindings. Kernels decide by shapes and features alone. */
class FittingRoom implements KernelContext {
  readonly features: DeviceFeatures;
  readonly #limit: number;
  fits = true;

  constructor(features: DeviceFeatures, limit: number) {
    this.features = features;
    this.#limit = limit;
  }

  dispatch<Binding extends string, Parameter extends string>(
    _program: Program<Binding, Parameter>,
    regions: Readonly<Record<Binding, BufferRegion>>,
    _parameters: ParameterValues<Parameter>,
  ): void {
    for (const region of Object.values<BufferRegion>(regions))
      if (windowOf(region) > this.#limit) this.fits = false;
  }

  scratch(bytes: number): BufferRegion {
    if (bytes > this.#limit) this.fits = false;
    return placeholder(bytes);
  }

  /** Copies and fills go in pieces. */
  copy(): void {}
  fill(): void {}
}

/** A region that is measured and never used. */
export function placeholder(bytes: number): BufferRegion {
  return { memory: {} as DeviceMemory, byteOffset: 0, byteLength: bytes };
}

/** Whether all that the kernel binds for this problem, its scratch included, can be bound. */
export function kernelFits<Problem>(
  { features }: KernelContext,
  kernel: KernelDefinition<Problem>,
  problem: Problem,
): boolean {
  const room = new FittingRoom(features, windowBytes(features));
  kernel.run(room, problem);
  return room.fits;
}
