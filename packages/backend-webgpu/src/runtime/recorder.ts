import type { DeviceFeatures } from "../device/index.js";
import type { Program } from "../program/index.js";
import type { BufferRegion, OperationContext, ParameterValues, Workgroups } from "./context.js";
import type { DeviceMemory, MemoryPool } from "./memory.js";
import type { PipelineCache } from "./pipelines.js";
import { estimatedMilliseconds } from "./policy.js";
import type { CommandQueue } from "./queue.js";
import { copyRegion, fillRegion, type Mover } from "./transfers.js";
import { WINDOW_ALIGNMENT, windowBytes } from "./windows.js";

type Regions = Readonly<Record<string, BufferRegion>>;

/** The means by which a recorder records. A stand-in only collects programs: see `warmup/`. */
export interface RecordingMeans {
  readonly queue: Pick<CommandQueue, "batch" | "parameters" | "reserve" | "dispatch">;
  readonly pool: Pick<MemoryPool, "scratch" | "release">;
  readonly pipelines: Pick<PipelineCache, "get" | "bindGroup">;
}

/**
 * Turns the requests of kernels into commands. A dispatch that the caches know makes no garbage here: for
 * small operations JavaScript costs more than the device.
 */
export class Recorder implements OperationContext, Mover {
  readonly features: DeviceFeatures;
  readonly #queue: RecordingMeans["queue"];
  readonly #pool: RecordingMeans["pool"];
  readonly #pipelines: RecordingMeans["pipelines"];
  readonly #windowBytes: number;
  #scratch: DeviceMemory[] = [];
  /** The operation that is being recorded, and the floating-point operations that it takes. */
  #operation = "webgpu";
  #flops = 0;
  /** The number of nested calls of `run`. The outermost one returns all scratch. */
  #depth = 0;
  /** The bindings of the dispatch that is being recorded, in order; used anew for each. */
  readonly #regions: BufferRegion[] = [];
  readonly #memories: DeviceMemory[] = [];
  readonly #starts: number[] = [];

  constructor(
    features: DeviceFeatures,
    queue: RecordingMeans["queue"],
    pool: RecordingMeans["pool"],
    pipelines: RecordingMeans["pipelines"],
  ) {
    this.features = features;
    this.#queue = queue;
    this.#pool = pool;
    this.#pipelines = pipelines;
    this.#windowBytes = windowBytes(features);
  }

  /**
   * Runs a function that may record commands and take scratch, and takes the scratch back at its end.
   * `operation` is the name of the commands in errors and profiles. `flops` estimates their time, see
   * `BatchPolicy`; each of several dispatches counts as if it did all of them, except those of light programs.
   */
  run<Result>(operation: string, enqueue: (context: OperationContext) => Result, flops = 0): Result {
    const outerOperation = this.#operation;
    const outerFlops = this.#flops;
    this.#operation = operation;
    this.#flops = flops;
    this.#depth++;
    try {
      return enqueue(this);
    } finally {
      this.#operation = outerOperation;
      this.#flops = outerFlops;
      this.#depth--;
      if (this.#depth === 0) this.#releaseScratch();
    }
  }

  scoped(enqueue: (context: OperationContext) => void): void {
    const outer = this.#scratch;
    this.#scratch = [];
    try {
      enqueue(this);
    } finally {
      this.#releaseScratch();
      this.#scratch = outer;
    }
  }

  #releaseScratch(): void {
    if (this.#scratch.length === 0) return;
    const scratch = this.#scratch;
    this.#scratch = [];
    for (const memory of scratch) this.#pool.release(memory);
  }

  /** Makes memory ready for a command that is about to be recorded. */
  touch(memory: DeviceMemory): void {
    this.#clearIfStale(memory);
    memory.batch = this.#queue.batch;
  }

  #clearIfStale(memory: DeviceMemory): void {
    if (memory.stale) this.clear(memory);
  }

  /** Fills memory with the zeros that its owner expects to find. */
  protected clear(memory: DeviceMemory): void {
    memory.stale = false;
    fillRegion(this, { memory, byteOffset: 0, byteLength: memory.bytes }, 0);
  }

  dispatch<Binding extends string, Parameter extends string>(
    program: Program<Binding, Parameter>,
    regions: Readonly<Record<Binding, BufferRegion>>,
    parameters: ParameterValues<Parameter>,
    workgroups: Workgroups,
  ): void {
    const { bindings } = program;
    if (!this.#gather(bindings, regions)) {
      const separated = this.#separated(program, regions);
      for (const { name, access } of bindings) {
        const { memory } = separated[name]!;
        this.#clearIfStale(memory);
        if (access !== "read") memory.beforeWrite();
      }
      this.#gather(bindings, separated);
    }
    this.#record(program, parameters, workgroups);
  }

  /**
   * Looks the regions up, in the order of the bindings. Returns whether they can be bound as they are: nothing must be recorded
   * before, and no buffer is both written and bound a second time.
   */
  #gather(bindings: Program["bindings"], regions: Regions): boolean {
    const found = this.#regions;
    let isReady = true;
    for (let i = 0; i < bindings.length; i++) {
      const { name, access } = bindings[i]!;
      const region = regions[name]!;
      const { memory } = region;
      found[i] = region;
      if (memory.stale || (access !== "read" && memory.pendingReads.size > 0)) isReady = false;
      for (let j = 0; j < i; j++)
        if (found[j]!.memory === memory && (access !== "read" || bindings[j]!.access !== "read"))
          isReady = false;
    }
    return isReady;
  }

  /** Records a dispatch on the regions that were gathered. */
  #record(program: Program, parameters: ParameterValues<string>, workgroups: Workgroups): void {
    const queue = this.#queue;
    const { bindings } = program;
    const limit = this.features.limits.maxComputeWorkgroupsPerDimension;
    const isLinear = typeof workgroups === "number" && workgroups <= limit;
    const grid = isLinear ? undefined : gridOf(workgroups, limit);
    const x = isLinear ? workgroups : grid![0];
    const y = grid?.[1] ?? 1;
    const z = grid?.[2] ?? 1;
    if (!(x > 0 && x <= limit && y > 0 && y <= limit && z > 0 && z <= limit))
      throw new Error(`${program.name}: ${x} x ${y} x ${z} workgroups; the device allows ${limit} each way`);
    const pipeline = this.#pipelines.get(program);
    let bytes = 0;
    for (let i = 0; i < bindings.length; i++) bytes += this.#regions[i]!.byteLength;
    // From here on nothing else is recorded: the following lines concern this dispatch and its batch alone.
    const work = estimatedMilliseconds(bytes, program.light ? 0 : this.#flops);
    queue.reserve(work, pipeline);
    const { words, floats } = queue.parameters;
    for (let i = 0; i < bindings.length; i++) {
      const { name, unit } = bindings[i]!;
      const region = this.#regions[i]!;
      const { memory, byteOffset } = region;
      if (byteOffset % unit !== 0)
        throw new Error(`${program.name}: ${name} starts at byte ${byteOffset}, in units of ${unit}`);
      const start = memory.capacity <= this.#windowBytes ? 0 : this.#windowStart(program, name, region);
      words[i] = (byteOffset - start) / unit;
      memory.batch = queue.batch;
      this.#memories[i] = memory;
      this.#starts[i] = start;
    }
    for (let i = 0; i < program.parameters.length; i++) {
      const { name, type, word } = program.parameters[i]!;
      const value = parameters[name]!;
      if (typeof value !== "number") words.set(value, word);
      else if (type === "f32") floats[word] = value;
      else words[word] = value;
    }
    const group = this.#pipelines.bindGroup(pipeline.layout, this.#memories, this.#starts, bindings.length);
    queue.dispatch(this.#operation, pipeline, group, x, y, z, work);
  }

  /**
   * Returns the start of the window through which a binding shows the region of a buffer that cannot be bound
   * whole. It is one of few places, so that bind groups are reused.
   */
  #windowStart(program: Program, name: string, { byteOffset, byteLength }: BufferRegion): number {
    const limit = this.#windowBytes;
    const step = Math.max(limit / 2 - ((limit / 2) % WINDOW_ALIGNMENT), WINDOW_ALIGNMENT);
    let start = byteOffset - (byteOffset % step);
    if (byteOffset + byteLength > start + limit) start = byteOffset - (byteOffset % WINDOW_ALIGNMENT);
    if (byteOffset + byteLength > start + limit)
      throw new Error(`${program.name}: ${name} has ${byteLength} bytes; the device binds ${limit}`);
    return start;
  }

  scratch(bytes: number): BufferRegion {
    const memory = this.#pool.scratch(Math.max(bytes, 1));
    this.#scratch.push(memory);
    return { memory, byteOffset: 0, byteLength: bytes };
  }

  copy(destination: BufferRegion, source: BufferRegion): void {
    destination.memory.overwrite(destination.byteOffset, destination.byteLength);
    copyRegion(this, destination, source);
  }

  fill(destination: BufferRegion, pattern: number): void {
    destination.memory.overwrite(destination.byteOffset, destination.byteLength);
    fillRegion(this, destination, pattern);
  }

  /** The regions, with inputs moved out of the way of outputs in the same buffer. */
  #separated(program: Program, regions: Regions): Regions {
    const separated: Record<string, BufferRegion> = {};
    for (const binding of program.bindings) {
      const region = regions[binding.name]!;
      const rivals = program.bindings.filter(
        (other) =>
          other !== binding && other.access !== "read" && regions[other.name]!.memory === region.memory,
      );
      for (const other of rivals)
        if (binding.access !== "read" || overlap(region, regions[other.name]!))
          throw new Error(`${program.name}: ${binding.name} and ${other.name} cannot be bound together`);
      separated[binding.name] = rivals.length === 0 ? region : this.detached(region);
    }
    return separated;
  }

  /** A copy of a region in scratch, at the same place modulo 16 bytes. */
  detached(region: BufferRegion): BufferRegion {
    const place = region.byteOffset % 16;
    const { memory } = this.scratch(place + region.byteLength);
    // Widened to whole blocks at both ends; buffers end with one.
    const start = region.byteOffset - place;
    const byteLength = Math.ceil((place + region.byteLength) / 16) * 16;
    copyRegion(
      this,
      { memory, byteOffset: 0, byteLength },
      { memory: region.memory, byteOffset: start, byteLength },
    );
    return { memory, byteOffset: place, byteLength: region.byteLength };
  }
}

/** Returns at least `count` workgroups in at most two dimensions, with as few to spare as whole rows allow. */
export function foldedGrid(count: number, limit: number): readonly [number, number, number] {
  const rows = Math.ceil(count / limit);
  return [Math.ceil(count / rows), rows, 1];
}

function gridOf(workgroups: Workgroups, limit: number): readonly [number, number, number] {
  return typeof workgroups === "number" ? foldedGrid(workgroups, limit) : workgroups;
}

function overlap(a: BufferRegion, b: BufferRegion): boolean {
  return a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength;
}
