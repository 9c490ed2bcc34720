import {
  type BackendDriver,
  BackendError,
  type DriverDescription,
  type DriverEvents,
  type DriverKernels,
  type Kernel,
  type Numerics,
  type Region,
} from "@backplane/core";
import type { KernelContext, KernelDefinition } from "./context.js";
import { adoptDevice, type OpenDevice, openDevice, requestAdapter, type WebGpuOptions } from "./device.js";
import { checkForced, forcedDetails } from "./kernels/forced.js";
import { kernelsWith } from "./kernels/index.js";
import { BUFFER_GRANULARITY, type DeviceMemory, MemoryPool } from "./memory.js";
import { PipelineCache } from "./pipelines.js";
import { CommandQueue } from "./queue.js";
import { Readback } from "./readback.js";
import { Recorder } from "./recorder.js";
import { writeEdges } from "./transfers.js";

/** WGSL lets implementations assume that there are no NaNs or infinities, flush subnormals, and round. */
const numerics: Numerics = {
  nan: "unspecified",
  infinity: "unspecified",
  subnormals: "flushed",
  signedZero: "unspecified",
  rounding: "unspecified",
  // Reductions run in a fixed order; no kernel uses floating-point atomics.
  deterministic: true,
};

const DEFAULT_POOL_BYTES = 512 * 2 ** 20;

/** `writeBuffer` keeps a copy of its data; in pieces, the copy of a shared source stays small. */
const WRITE_BYTES = 1 << 26;

/** All that exists while the device is open. */
interface Session {
  readonly opened: OpenDevice;
  readonly queue: CommandQueue;
  readonly pool: MemoryPool;
  readonly pipelines: PipelineCache;
  readonly recorder: Recorder;
  readonly readback: Readback;
  readonly events: DriverEvents;
  readonly onUncaptured: (event: GPUUncapturedErrorEvent) => void;
  closing: boolean;
}

/** Backplane on a WebGPU device. `findGpu` answers `navigator.gpu` or what stands in for it. */
export class WebGpuDriver implements BackendDriver<DeviceMemory> {
  readonly name = "webgpu";
  readonly kernels: DriverKernels<DeviceMemory>;
  readonly #findGpu: () => Promise<GPU | undefined>;
  readonly #options: WebGpuOptions;
  #open: Session | undefined;
  /** Dawn aborts the process if this is collected while a device lives. */
  #gpu: GPU | undefined;

  constructor(findGpu: () => Promise<GPU | undefined>, options: WebGpuOptions = {}) {
    checkForced(options.variants ?? {});
    this.#findGpu = findGpu;
    this.#options = options;
    this.kernels = this.#bindKernels();
  }

  async open(events: DriverEvents): Promise<DriverDescription> {
    const opened = await this.#openDevice();
    const maxBytes = opened.maxBufferBytes - (opened.maxBufferBytes % BUFFER_GRANULARITY);
    this.#open = makeSession(opened, events, maxBytes, this.#options.poolBytes ?? DEFAULT_POOL_BYTES);
    const { description } = opened;
    const details = { ...description.details, ...forcedDetails(this.#options.variants ?? {}) };
    return { device: { ...description, details }, limits: { maxAllocationBytes: maxBytes }, numerics };
  }

  async close(): Promise<void> {
    const session = this.#session;
    session.closing = true;
    this.#open = undefined;
    const { device, owned } = session.opened;
    device.removeEventListener("uncapturederror", session.onUncaptured as EventListener);
    session.queue.destroy();
    session.readback.destroy(new BackendError("DISPOSED", "copyDtoH: the backend was disposed"));
    session.pool.destroyAll();
    if (owned) {
      device.destroy();
      await device.lost;
    }
  }

  async synchronize(): Promise<void> {
    const { queue, opened, readback } = this.#session;
    queue.flush();
    await readback.guard(opened.device.queue.onSubmittedWorkDone());
  }

  alloc(bytes: number, zero: boolean): DeviceMemory {
    return this.#session.pool.acquire(bytes, zero);
  }

  free(memory: DeviceMemory): void {
    this.#session.pool.release(memory);
  }

  write(destination: DeviceMemory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    const { recorder, queue, opened } = this.#session;
    const region = { memory: destination, byteOffset, byteLength: source.byteLength };
    const coversAll = byteOffset === 0 && source.byteLength >= destination.bytes;
    if (coversAll) destination.stale = false;
    // A write of the queue takes effect before commands that are recorded but not yet submitted.
    if (destination.stale) recorder.touch(destination);
    if (destination.batch === queue.batch) queue.flush();
    const inner = writeEdges(recorder, region, source);
    for (let start = inner.start; start < inner.end; start += WRITE_BYTES) {
      const piece = unshared(source.subarray(start, Math.min(start + WRITE_BYTES, inner.end)));
      opened.device.queue.writeBuffer(destination.buffer, byteOffset + start, piece);
    }
  }

  read(destination: Uint8Array<ArrayBufferLike>, source: DeviceMemory, byteOffset: number): Promise<void> {
    const { recorder, readback } = this.#session;
    recorder.touch(source);
    return readback.read(destination, source.buffer, byteOffset);
  }

  copy(destination: Region<DeviceMemory>, source: Region<DeviceMemory>): void {
    this.#session.recorder.run((context) => context.copy(destination, source));
  }

  fill(destination: Region<DeviceMemory>, pattern: number): void {
    this.#session.recorder.run((context) => context.fill(destination, pattern));
  }

  reservedBytes(): number {
    const { pool, readback } = this.#session;
    return pool.reservedBytes + readback.reservedBytes;
  }

  /** The GPUDevice, or the GPUBuffer of an allocation. All work enqueued so far has been submitted. */
  native(memory?: DeviceMemory): unknown {
    const { recorder, queue, opened } = this.#session;
    if (memory !== undefined) recorder.touch(memory);
    queue.flush();
    return memory === undefined ? opened.device : memory.buffer;
  }

  /** Lets `enqueue` record kernels of its own; scratch that it asks for lasts until it returns. */
  withContext(enqueue: (context: KernelContext) => void): void {
    this.#session.recorder.run(enqueue);
  }

  get #session(): Session {
    if (this.#open === undefined) throw new BackendError("NOT_INITIALIZED", "webgpu: the device is not open");
    return this.#open;
  }

  async #openDevice(): Promise<OpenDevice> {
    if (this.#options.device !== undefined) return adoptDevice(this.#options.device, this.#options);
    this.#gpu = await this.#findGpu();
    return openDevice(await requestAdapter(this.#gpu, this.#options), this.#options);
  }

  #bindKernels(): DriverKernels<DeviceMemory> {
    const bind = <Problem>({ run, ...declaration }: KernelDefinition<Problem>): Kernel<Problem> => ({
      ...declaration,
      run: (problem) => this.#session.recorder.run((context) => run(context, problem)),
    });
    const kernels = kernelsWith(this.#options.variants ?? {});
    const entries = Object.entries(kernels) as [string, KernelDefinition<unknown>][];
    return Object.fromEntries(entries.map(([name, definition]) => [name, bind(definition)]));
  }
}

function makeSession(opened: OpenDevice, events: DriverEvents, maxBytes: number, poolBytes: number): Session {
  const { device, features } = opened;
  const onOutOfMemory = (bytes: number, reason: string): void =>
    events.error(
      new BackendError("OUT_OF_MEMORY", `alloc: the device cannot hold ${bytes} bytes: ${reason}`, {
        operation: "alloc",
      }),
    );
  const queue = new CommandQueue(device, () => pool.afterSubmit());
  const pipelines = new PipelineCache(device, queue.parameterBuffer);
  const pool = new MemoryPool({
    ...{ device, maxBytes, poolBytes, onOutOfMemory },
    currentBatch: () => queue.batch,
    onDestroy: (memory) => pipelines.forget(memory),
  });
  const session: Session = {
    ...{ opened, queue, pool, pipelines, events },
    recorder: new Recorder(features, queue, pool, pipelines),
    readback: new Readback(device, queue, (error) => events.error(error)),
    onUncaptured(event) {
      // Reported to the caller, and so not to the console.
      event.preventDefault();
      events.error(faultOf(event.error));
    },
    closing: false,
  };
  device.addEventListener("uncapturederror", session.onUncaptured as EventListener);
  device.lost.then(({ reason, message }) => {
    if (session.closing) return;
    const why = `the device was lost (${reason}): ${message}`;
    session.readback.fail(new BackendError("DEVICE_LOST", why));
    events.lost(why);
  });
  return session;
}

function faultOf(error: GPUError): BackendError {
  const code = error.constructor.name === "GPUOutOfMemoryError" ? "OUT_OF_MEMORY" : "DEVICE_ERROR";
  return new BackendError(code, `the device reported: ${error.message}`, { cause: error });
}

/** Dawn refuses views of shared memory, and browsers may refuse resizable memory: those are copied. */
function unshared(bytes: Uint8Array<ArrayBufferLike>): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes;
  const plain = buffer instanceof ArrayBuffer && !(buffer as { resizable?: boolean }).resizable;
  return plain ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes);
}
