import {
  type BackendDriver,
  BackendError,
  type DriverDescription,
  type DriverEvents,
  type DriverKernels,
  type DriverRecording,
  type Numerics,
  type OwnKernel,
  type PoolStatistics,
  type Region,
  toBackendError,
} from "@backplane/core";
import { featuresInUse, planDevice } from "./device-plan.js";
import { type Allocation, Heap, largestHeapBytes } from "./heap.js";
import { KernelInstances } from "./kernels/instance.js";
import {
  address,
  type CpuMemory,
  type CpuOperation,
  type Features,
  type Launch,
  type PlanContext,
} from "./kernels/kernel.js";
import { KernelLibrary } from "./kernels/library.js";
import { memoryKernels, planCopy, planFill, planTouch } from "./kernels/memory/index.js";
import type { CpuOperations } from "./kernels/set.js";
import { wholeLines } from "./kernels/vector/index.js";
import type { BlasLibrary } from "./native/blas.js";
import type { ResolvedOptions } from "./options.js";
import { InlineQueue, inlineControlBytes } from "./queue/inline.js";
import type { Queue } from "./queue/queue.js";
import { Workspaces } from "./workspaces.js";

const pageBytes = 65536;
/** Bytes that stay with the driver for the workspaces of a plan. To allocate and free each took a thirtieth of a small call. */
const roomBytes = 1 << 18;

/** Bytes that may wait on their way from the host to their place, unless the memory is small. */
const stagingBytes = 16 << 20;

/** Without an explicit size, a backend does not open with less than this. */
const leastDefaultBytes = 64 << 20;

const numerics: Numerics = {
  nan: "kept",
  infinity: "kept",
  subnormals: "kept",
  signedZero: "kept",
  rounding: "nearest-even",
  deterministic: true,
};

/** Returned by `native()` for one allocation: `byteLength` bytes of the memory, from `byteOffset`. */
export interface CpuNativeRegion {
  readonly memory: WebAssembly.Memory;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** The driver's memory for one handle. */
export interface CpuAllocation extends CpuMemory {
  readonly block: Allocation;
  /** So many bytes from the start were in use before, or were touched for a move to here. */
  touchedBytes: number;
}

/** Everything that exists between `open` and `close`. */
interface Device {
  readonly memory: WebAssembly.Memory;
  readonly heap: Heap;
  readonly queue: Queue;
  readonly context: PlanContext;
  readonly library: KernelLibrary;
  /** Bytes of the room that the plan being made has taken. */
  roomTaken: number;
  /** Workspaces of the plan being made for which there was no room. */
  readonly workspaces: Allocation[];
  /** The part of a recording that is being planned. */
  captured: Captured | undefined;
}

/** The commands of a part of a recording, and the workspaces of the recording. */
interface Captured {
  readonly launches: Launch[];
  readonly workspaces: Workspaces;
}

/** The variants in use, by operation, and what there is to say about them. */
interface Settled {
  readonly variants: Readonly<Record<string, string>>;
  readonly details: Readonly<Record<string, string>>;
}

interface Kernels {
  readonly library: KernelLibrary;
  /** Engines keep one copy of the code for all modules of the same bytes while one of them exists: these do. */
  readonly instances: KernelInstances;
  /** Settles on variants at the first call. */
  settled(): Promise<Settled>;
}

/** The key has everything that the kernels depend on. */
const kernelsInUse = new Map<string, Kernels>();

/** The driver. Allocations are places in one WebAssembly memory. */
export class CpuDriver implements BackendDriver<CpuAllocation> {
  readonly name = "cpu";
  readonly reusesMemory = true;
  readonly kernels: DriverKernels<CpuAllocation>;
  readonly #options: ResolvedOptions;
  readonly #operations: CpuOperations;
  readonly ownKernels: readonly OwnKernel[];
  #device: Device | undefined;

  constructor(options: ResolvedOptions) {
    this.#options = options;
    this.#operations = options.parts.set.limited(options.variants, featuresInUse(options));
    this.kernels = Object.fromEntries(
      Object.entries(this.#operations).map(([name, operation]) => {
        // Each problem type belongs to its operation; `entries` loses that.
        const { supports, plan } = operation as CpuOperation<unknown>;
        const run = (problem: unknown) => this.#run(plan, problem);
        return [name, { supports, run }];
      }),
    ) as DriverKernels<CpuAllocation>;
    this.ownKernels = options.kernels.map(({ operation, supports, plan }) => {
      const run = (problem: never) => this.#run(plan, problem);
      return { operation, supports, run };
    });
  }

  async open(events: DriverEvents): Promise<DriverDescription> {
    const { features, threads, blas, device: plannedDevice } = planDevice(this.#options);
    const { parts } = this.#options;
    const shared = threads > 0;
    const threadedQueue = shared ? await parts.threadedQueue() : undefined;
    const control = threadedQueue?.controlBytes ?? inlineControlBytes;
    const { library, settled } = this.#kernels(shared, features, blas);
    const scratchBytes = Math.ceil(library.largestScratch / 64) * 64;
    const room = control + scratchBytes * Math.max(1, threads);
    const base = room + roomBytes;
    const initial = Math.ceil((base + 64) / pageBytes);
    const { memory, maxBytes } = newMemory(initial, this.#options.maxBytes, shared);
    const heap = new Heap(memory, base, maxBytes);
    const scratch = Array.from({ length: Math.max(1, threads) }, (_, i) => control + i * scratchBytes);
    const staging = Math.min(stagingBytes, Math.floor(heap.largestAllocation / 8));
    const meanwhile = async () => void (await settled());
    const queue =
      (await threadedQueue?.open({
        ...{ kernels: library, memory, heap, scratch, events, stagingBytes: staging, meanwhile },
      })) ??
      new InlineQueue(library, memory, heap, scratch[0]!, events, parts.native?.nativeKernels(blas, memory));
    const { variants, details: chosen } = await settled();
    const workspaces: Allocation[] = [];
    const workspace = (bytes: number): number => {
      const { captured } = device;
      if (captured !== undefined) return captured.workspaces.take(bytes).address;
      const taken = device.roomTaken;
      const end = taken + wholeLines(bytes);
      if (end <= roomBytes) {
        device.roomTaken = end;
        return room + taken;
      }
      const place = heap.allocate(bytes);
      workspaces.push(place);
      return place.address;
    };
    // One object for all plans, because every call asks for it.
    const context = {
      features,
      nativeProducts: parts.native?.products,
      variants,
      workers: queue.workers,
      transformedConvolutions: this.#options.transformedConvolutions,
      workspace,
      late: library.late.bind(library),
    };
    const device: Device = {
      ...{ memory, heap, queue, context, library, workspaces },
      ...{ roomTaken: 0, captured: undefined },
    };
    this.#device = device;
    const details = { ...plannedDevice.details, ...chosen };
    const limits = { maxAllocationBytes: heap.largestAllocation };
    return {
      device: { ...plannedDevice, details },
      limits,
      numerics: { ...numerics, transformedConvolutions: this.#options.transformedConvolutions },
      accuracy: this.#options.parts.set.accuracy,
      synchronousReads: queue.mayReadSync,
    };
  }

  /** Backends with the same features share their kernels, which are made, and variants settled, once. */
  #kernels(shared: boolean, features: Features, blas: BlasLibrary | undefined): Kernels {
    const { variants: forced, kernels: own, parts } = this.#options;
    const { set } = parts;
    const names = Object.keys(set.operations);
    // Two lists of kernels of others may have the same names, so these are not shared.
    const key = own.length === 0 ? JSON.stringify([shared, features, forced, blas, names]) : undefined;
    const known = key === undefined ? undefined : kernelsInUse.get(key);
    if (known !== undefined) return known;
    const groups = [...Object.values(this.#operations), ...own].flatMap(({ kernels }) => kernels);
    // They accept every memory up to this size.
    const limits = { initialPages: 1, maximumPages: largestHeapBytes / pageBytes, shared };
    const library = new KernelLibrary([memoryKernels, ...groups], limits, features, blas);
    const page = new WebAssembly.Memory({ initial: 1, maximum: 1, shared });
    const instances = new KernelInstances(library.code, page, {});
    const make = (kernel: string) => instances.get(library.index(kernel));
    const settle = async (): Promise<Settled> => {
      const variants: Record<string, string> = {};
      const details: Record<string, string> = {};
      for (const [operation, { settle }] of set.variants) {
        const chosen = await settle({ features, forced: forced[operation], make });
        variants[operation] = chosen.name;
        Object.assign(details, chosen.details);
      }
      return { variants, details };
    };
    let settled: Promise<Settled> | undefined;
    const kernels: Kernels = {
      library,
      instances,
      settled() {
        settled ??= settle();
        return settled;
      },
    };
    if (key !== undefined) kernelsInUse.set(key, kernels);
    return kernels;
  }

  async close(): Promise<void> {
    const device = this.#device;
    this.#device = undefined;
    await device?.queue.close();
  }

  synchronize(): Promise<void> {
    return this.#open().queue.synchronize();
  }

  alloc(bytes: number, zero: boolean): CpuAllocation {
    const { heap, queue } = this.#open();
    const block = heap.allocate(bytes);
    const memory = { byteOffset: block.address, byteLength: bytes, block, touchedBytes: block.dirtyBytes };
    const stale = Math.min(bytes, block.dirtyBytes);
    if (zero && stale > 0) queue.enqueue(planFill({ memory, byteOffset: 0, byteLength: stale }, 0));
    return memory;
  }

  free(memory: CpuAllocation): void {
    this.#open().queue.release(memory.block);
  }

  write(destination: CpuAllocation, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    this.#open().queue.write(destination.byteOffset + byteOffset, source);
  }

  read(destination: Uint8Array<ArrayBufferLike>, source: CpuAllocation, byteOffset: number): Promise<void> {
    return this.#open().queue.read(destination, source.byteOffset + byteOffset);
  }

  readSync(destination: Uint8Array<ArrayBufferLike>, source: CpuAllocation, byteOffset: number): void {
    this.#open().queue.readSync(destination, source.byteOffset + byteOffset);
  }

  /**
   * Shared memory stays where it is when it grows; views of other memory are detached. The first touch of new memory takes the
   * system longer than a copy: so workers, if there are any, touch it first, several at a time.
   */
  hostBytes(
    { memory, byteOffset, byteLength }: Region<CpuAllocation>,
    isWritten: boolean,
  ): Uint8Array<ArrayBufferLike> | undefined {
    const device = this.#open();
    const { buffer } = device.memory;
    const end = byteOffset + byteLength;
    const hasWorkers = !(buffer instanceof ArrayBuffer);
    if (hasWorkers && isWritten && byteOffset <= memory.touchedBytes && end > memory.touchedBytes) {
      const first = memory.touchedBytes;
      device.queue.enqueue(planTouch({ memory, byteOffset: first, byteLength: end - first }));
      memory.touchedBytes = end;
    }
    return new Uint8Array(buffer, memory.byteOffset + byteOffset, byteLength);
  }

  copy(destination: Region<CpuAllocation>, source: Region<CpuAllocation>): void {
    this.#enqueue(planCopy(address(destination), address(source), destination.byteLength));
  }

  fill(destination: Region<CpuAllocation>, pattern: number): void {
    this.#enqueue(planFill(destination, pattern));
  }

  #enqueue(launch: Launch): void {
    const { queue, captured } = this.#open();
    if (captured === undefined) queue.enqueue(launch);
    else captured.launches.push(launch);
  }

  record(): DriverRecording {
    const device = this.#open();
    const { queue, heap } = device;
    const list = queue.newList();
    const workspaces = new Workspaces(heap);
    return {
      plan(place, enqueue) {
        const launches: Launch[] = [];
        device.captured = { launches, workspaces };
        try {
          enqueue();
        } finally {
          device.captured = undefined;
          workspaces.reuse();
        }
        list.set(place, launches);
      },
      run: () => list.run(),
      dispose() {
        list.dispose();
        workspaces.release();
      },
    };
  }

  /** The whole memory, including its free parts. It never shrinks, so there is no `trim`. */
  reservedBytes(): number {
    return this.#device?.memory.buffer.byteLength ?? 0;
  }

  /** A miss is an allocation for which the memory had to grow. */
  pool(): PoolStatistics {
    const { heap } = this.#open();
    const { freeBytes, allocations, growths } = heap;
    return { pooledBytes: freeBytes, poolHits: allocations - growths, poolMisses: growths };
  }

  native(memory?: CpuAllocation): WebAssembly.Memory | CpuNativeRegion {
    const device = this.#open();
    if (memory === undefined) return device.memory;
    const { byteOffset, byteLength } = memory;
    return { memory: device.memory, byteOffset, byteLength };
  }

  #run(plan: CpuOperation<unknown>["plan"], problem: unknown): void {
    const device = this.#open();
    const { heap, queue, context, workspaces, captured } = device;
    if (captured !== undefined) {
      captured.launches.push(...plan(problem, context));
      // Commands follow one another, so the next problem may use the same ones.
      captured.workspaces.reuse();
      return;
    }
    try {
      const launches: readonly Launch[] = plan(problem, context);
      for (const launch of launches) queue.enqueue(launch);
    } finally {
      // The next user of this memory reaches it through the queue, and so after these commands, and no read
      // is pending on it.
      device.roomTaken = 0;
      for (const place of workspaces) heap.release(place);
      // To set a length takes a tenth of a small call, even if nothing changes.
      if (workspaces.length > 0) workspaces.length = 0;
    }
  }

  #open(): Device {
    if (this.#device === undefined) throw new BackendError("NOT_INITIALIZED", "cpu: the device is not open");
    return this.#device;
  }
}

/**
 * Returns a memory that may grow to `wanted` bytes. Engines reserve the addresses at once, and some (on
 * phones) do not have many: if the caller gave no size, tries half of it, and so on.
 */
function newMemory(
  initial: number,
  wanted: number | undefined,
  shared: boolean,
): { memory: WebAssembly.Memory; maxBytes: number } {
  for (let maxBytes = wanted ?? largestHeapBytes; ; maxBytes = Math.floor(maxBytes / 2)) {
    const maximum = Math.floor(maxBytes / pageBytes);
    try {
      return { memory: new WebAssembly.Memory({ initial, maximum, shared }), maxBytes };
    } catch (error) {
      if (wanted !== undefined || maxBytes / 2 < leastDefaultBytes)
        throw toBackendError(error, "OUT_OF_MEMORY", "init");
    }
  }
}
