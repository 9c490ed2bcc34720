import { BackendError } from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import { boundKernels, type ForcedVariants, type KernelSet } from "../kernels/index.js";
import type { Profiling } from "../profile/index.js";
import type { Program } from "../program/index.js";
import type {
  BufferRegion,
  CommandQueue,
  DeviceMemory,
  Guard,
  MemoryPool,
  OperationContext,
  Readback,
  Recorder,
} from "../runtime/index.js";
import type { PlanDriver } from "../warmup/index.js";
import type { TuningEntry } from "./data.js";
import type { TuningTask } from "./rehearsal.js";
import type { TunableShapes } from "./shapes.js";
import { timeByTimestamps, timeByWaiting } from "./time.js";

/** The device as tuning uses it. Everything throws, or rejects, once that device is lost or closed. */
export interface TuningDevice {
  /** As the device was opened. */
  readonly features: DeviceFeatures;
  readonly kernels: KernelSet;
  readonly shapes: TunableShapes;
  log(line: string): void;

  alloc(bytes: number): DeviceMemory;
  free(memory: DeviceMemory): void;
  /** Destroys free device memory that did not exist when this began. */
  giveBack(): void;
  /** Writes from the beginning of the memory on. */
  write(destination: DeviceMemory, source: Uint8Array): void;
  copy(destination: BufferRegion, source: BufferRegion): void;
  read(destination: Uint8Array, source: DeviceMemory, byteOffset: number): Promise<void>;

  /** Returns a driver that computes nothing and chooses as for a device with these features. */
  plan(features: DeviceFeatures): PlanDriver;
  /** Rejects with `DEVICE_ERROR` if the device refuses one. */
  prepare(programs: ReadonlySet<Program>): Promise<void>;
  /** Enqueues a problem, choosing as these features have it. */
  run(task: TuningTask, features: DeviceFeatures): void;
  /** Rejects with the device's error. */
  synchronize(): Promise<void>;
  /** Returns the seconds that the device takes for the commands of `enqueue`. */
  time(enqueue: () => void): Promise<number>;
  /** Uses these findings from now on. */
  use(entries: readonly TuningEntry[]): void;
}

/** The parts of an open device that tuning needs. */
export interface TuningSession {
  readonly opened: { readonly features: DeviceFeatures };
  readonly queue: CommandQueue;
  readonly pool: MemoryPool;
  readonly recorder: Recorder;
  readonly readback: Readback;
  readonly guard: Guard;
  readonly profiling: Profiling;
}

export interface TuningDeviceOptions
  extends Pick<
    TuningDevice,
    "kernels" | "shapes" | "log" | "plan" | "prepare" | "write" | "synchronize" | "use"
  > {
  readonly session: TuningSession;
  readonly variants: ForcedVariants;
  /** Whether the device is still the one that was opened for these parts. */
  isOpen(): boolean;
}

/** One session of a driver, and no other, even if the backend gets a fresh device meanwhile. */
export function openTuningDevice(options: TuningDeviceOptions): TuningDevice {
  const { session, synchronize, isOpen, log, variants } = options;
  const { opened, pool, readback, guard, queue, recorder, profiling } = session;
  const before = { pool: pool.reservedBytes, readback: readback.reservedBytes };
  const assertOpen = (): void => {
    if (isOpen()) return;
    throw new BackendError("DEVICE_LOST", "tune: the device that it measured was lost meanwhile", {
      operation: "tune",
    });
  };
  const record = <Result>(enqueue: (context: OperationContext) => Result, flops = 0): Result => {
    assertOpen();
    guard.enter("tune");
    return recorder.run("tune", enqueue, flops);
  };
  let chosen = opened.features;
  const kernels = boundKernels(options.kernels, variants, (_, enqueue, flops) =>
    record((context) => enqueue(withFeatures(context, chosen)), flops),
  );
  return {
    features: opened.features,
    ...{ kernels: options.kernels, shapes: options.shapes, log, plan: options.plan },
    alloc(bytes) {
      assertOpen();
      guard.enter("tune");
      return pool.acquire(bytes, false);
    },
    free(memory) {
      if (isOpen()) pool.release(memory);
    },
    giveBack() {
      if (!isOpen()) return;
      queue.flush();
      pool.trim(before.pool);
      readback.trim(before.readback);
    },
    write(destination, source) {
      assertOpen();
      options.write(destination, source);
    },
    copy: (destination, source) => record((context) => context.copy(destination, source)),
    read: async (destination, source, byteOffset) =>
      record(() => readback.read(destination, source, byteOffset)),
    async prepare(programs) {
      assertOpen();
      try {
        await options.prepare(programs);
      } catch (error) {
        if (!(error instanceof BackendError) || error.code !== "DEVICE_ERROR") throw error;
        throw new BackendError(error.code, error.message, { operation: "tune", cause: error.cause });
      }
    },
    run({ operation, problem }, features) {
      chosen = features;
      kernels[operation]!.run(problem as never);
    },
    async synchronize() {
      assertOpen();
      await synchronize();
      assertOpen();
    },
    async time(enqueue) {
      assertOpen();
      return profiling.isPossible
        ? timeByTimestamps(profiling, enqueue, synchronize)
        : timeByWaiting(enqueue, synchronize);
    },
    use(entries) {
      assertOpen();
      options.use(entries);
    },
  };
}

/** Returns the same context, in which kernels choose as for other features. */
function withFeatures(context: OperationContext, features: DeviceFeatures): OperationContext {
  return {
    features,
    dispatch: (program, regions, parameters, workgroups) =>
      context.dispatch(program, regions, parameters, workgroups),
    scratch: (bytes) => context.scratch(bytes),
    copy: (destination, source) => context.copy(destination, source),
    fill: (destination, pattern) => context.fill(destination, pattern),
    scoped: (enqueue) => context.scoped((inner) => enqueue(withFeatures(inner, features))),
  };
}
