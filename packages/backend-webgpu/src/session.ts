import { BackendError, type DriverEvents } from "@backplane/core";
import type { TunedVariants } from "./device/index.js";
import type { WebGpuOptions } from "./options.js";
import { Profiling } from "./profile/index.js";
import type { Dialect } from "./program/index.js";
import type { OpenDevice } from "./runtime/index.js";
import {
  BUFFER_GRANULARITY,
  CommandQueue,
  type DeviceMemory,
  ForeignBuffers,
  faultOf,
  Guard,
  holding,
  MemoryPool,
  PipelineCache,
  Readback,
  Recorder,
  StagedUploads,
  Uploads,
  windowBytes,
} from "./runtime/index.js";
import type { TunedTable, TuningSession } from "./tuning/index.js";

const DEFAULT_POOL_BYTES = 512 * 2 ** 20;

/**
 * The references needed when a device is lost. A device may live for long, and so does everything that waits
 * for its loss.
 */
interface LossWatch {
  /** Undefined once the session is closed. */
  onLoss: ((reason: string) => void) | undefined;
}

/** All that exists while the device is open, and goes with it. */
export interface Session extends TuningSession {
  readonly opened: OpenDevice;
  readonly pipelines: PipelineCache;
  readonly uploads: Uploads;
  readonly stagedUploads: StagedUploads;
  readonly foreign: ForeignBuffers;
  /** The allocations whose buffers callers have been given. */
  readonly exported: WeakMap<GPUBuffer, DeviceMemory>;
  /** Undefined on a given device: uncaptured errors there may not be ours. */
  readonly onUncaptured: ((event: GPUUncapturedErrorEvent) => void) | undefined;
  readonly lossWatch: LossWatch;
  readonly tuned: TunedTable;
  /** Takes what kernels ask for while a recording is planned. */
  capturing: OperationRecorder | undefined;
  /** True: nothing is reported any more. */
  closing: boolean;
}

/** Runs the kernels of an operation. */
export type OperationRecorder = Pick<Recorder, "run">;

/** The largest allocation: buffers consist of whole blocks. */
export function largestAllocation({ maxBufferBytes }: OpenDevice): number {
  return maxBufferBytes - (maxBufferBytes % BUFFER_GRANULARITY);
}

/** Begins a session on a device. */
export function openSession(
  opened: OpenDevice,
  tuned: TunedTable,
  events: DriverEvents,
  dialect: Dialect,
  { poolBytes = DEFAULT_POOL_BYTES, disableFeatures = [] }: WebGpuOptions,
): Session {
  const maxBytes = largestAllocation(opened);
  const report = (error: BackendError): void => {
    queue.distrustParameters();
    if (!session.closing) events.error(error);
  };
  const guard = new Guard(opened.device, report);
  const { device } = guard;
  const onOutOfMemory = (bytes: number, reason: string, operation: string): void =>
    report(
      new BackendError("OUT_OF_MEMORY", `${operation}: the device cannot hold ${bytes} bytes: ${reason}`, {
        operation,
      }),
    );
  const queue = new CommandQueue(device, {
    onFlush() {
      pool.afterSubmit();
      uploads.afterSubmit();
    },
    compiled: (operation, pipeline) => guard.within(operation, () => pipelines.compiled(pipeline)),
    onRelease: () => readback.advance(),
    together: (calls, operations) => guard.together(calls, operations),
  });
  const uploads = new Uploads(device.queue, () => device.queue.submit([]));
  const pipelines = new PipelineCache(device, {
    parameterBuffer: queue.parameterBuffer,
    ...dialect,
    windowBytes: windowBytes(opened.features),
    mayWait: () => queue.mayHold && (holding.onSoftware || !opened.description.software),
  });
  const pool = new MemoryPool({
    ...{ device, maxBytes, poolBytes, onOutOfMemory },
    currentBatch: () => queue.batch,
    currentOperation: () => guard.operation,
    onDestroy: (memory) => pipelines.forget(memory),
  });
  const recorder = new Recorder(opened.features, queue, pool, pipelines);
  const onUncaptured = (event: GPUUncapturedErrorEvent): void => {
    // Reported to the caller, and so not to the console.
    event.preventDefault();
    report(faultOf(event.error, []));
  };
  const readback = new Readback({
    ...{ device, queue, pool, recorder, onFault: report },
    within: (body) => guard.within("copyDtoH", body),
  });
  const session: Session = {
    ...{ opened, tuned, queue, pool, pipelines, recorder, uploads, readback, guard },
    stagedUploads: new StagedUploads({
      ...{ device, queue, recorder },
      enter: () => guard.enter("copyHtoD"),
      guard: (work) => readback.guard(work),
    }),
    profiling: new Profiling({
      ...{ device, queue, disableFeatures },
      onStart: () => guard.enter("profile"),
      guard: (work) => readback.guard(work),
      pipelineCount: () => pipelines.size,
    }),
    foreign: new ForeignBuffers(maxBytes, (memory) => {
      // Its owner may overwrite or destroy it from now on.
      if (memory.batch === queue.batch) queue.flush();
      pipelines.forget(memory);
    }),
    exported: new WeakMap(),
    // On our own device, for errors that the guard does not see.
    onUncaptured: opened.owned ? onUncaptured : undefined,
    lossWatch: {
      onLoss(reason) {
        readback.fail(new BackendError("DEVICE_LOST", reason));
        events.lost(reason);
      },
    },
    capturing: undefined,
    closing: false,
  };
  if (opened.owned) opened.device.addEventListener("uncapturederror", onUncaptured as EventListener);
  watchLoss(opened.device, session.lossWatch);
  useTuning(session);
  return session;
}

/** A separate function, so that it keeps nothing alive but the watch. */
function watchLoss(device: GPUDevice, watch: LossWatch): void {
  device.lost.then(({ reason, message }) => watch.onLoss?.(`the device was lost (${reason}): ${message}`));
}

/** Must be called after choices were added. Without tuning, choosing a kernel then costs nothing extra. */
export function useTuning({ opened, tuned }: Session): void {
  const features: { tuned?: TunedVariants | undefined } = opened.features;
  features.tuned = tuned.size === 0 ? undefined : tuned;
}

/** Ends a session: reports nothing any more and destroys our own objects. */
export async function closeSession(session: Session): Promise<void> {
  session.closing = true;
  session.lossWatch.onLoss = undefined;
  if (session.onUncaptured !== undefined)
    session.opened.device.removeEventListener("uncapturederror", session.onUncaptured as EventListener);
  session.queue.destroy();
  session.profiling.destroy();
  session.readback.destroy(new BackendError("DISPOSED", "copyDtoH: the backend was disposed"));
  session.stagedUploads.destroy();
  session.pool.destroyAll();
  const { device, owned } = session.opened;
  if (!owned) return;
  device.destroy();
  await device.lost;
}
