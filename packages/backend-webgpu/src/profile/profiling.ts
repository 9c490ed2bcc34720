import type { CommandQueue } from "../runtime/index.js";
import { measuringFeatures } from "../runtime/index.js";
import type { Profiler } from "./profiler.js";

export interface ProfilingOptions {
  /** Must have the features that `measuringFeatures` names. */
  readonly device: GPUDevice;
  readonly disableFeatures: readonly string[];
  readonly queue: Pick<CommandQueue, "observe">;
  /** A profile begins. */
  onStart(): void;
  /** Settles as the promise does, and also when the device is lost or closed. */
  guard(work: Promise<unknown>): Promise<void>;
  /** How many pipelines exist. */
  pipelineCount(): number;
}

/** Measures a device, one profile at a time. `profiler.js` begins one: few programs do, so it is loaded when it is first used. */
export class Profiling {
  readonly options: ProfilingOptions;
  /** The profiler that measures now. Set by `startProfile`. */
  profiler: Profiler | undefined;

  constructor(options: ProfilingOptions) {
    this.options = options;
  }

  /** Whether the device can measure. */
  get isPossible(): boolean {
    const { device, disableFeatures } = this.options;
    return measuringFeatures(device, disableFeatures).length > 0;
  }

  /** Bytes of device memory that the measuring takes. */
  get reservedBytes(): number {
    return this.profiler?.reservedBytes ?? 0;
  }

  /** Submits the commands that are still to be measured. Returns false if the device was closed meanwhile. */
  stop(profiler: Profiler): boolean {
    if (this.profiler !== profiler) return false;
    this.profiler = undefined;
    this.options.queue.observe(undefined);
    return true;
  }

  /** Called with the end of the device: submits nothing any more. */
  destroy(): void {
    this.profiler?.destroy();
    this.profiler = undefined;
  }
}
