import type { BufferRegion, DeviceFeatures, KernelContext, ParameterValues, Workgroups } from "./context.js";
import type { DeviceMemory, MemoryPool } from "./memory.js";
import type { PipelineCache } from "./pipelines.js";
import type { Program, ProgramParameter } from "./program.js";
import type { CommandQueue, ParameterBlock } from "./queue.js";
import { copyRegion, fillRegion } from "./transfers.js";

/** Turns what kernels ask for into commands. */
export class Recorder implements KernelContext {
  readonly features: DeviceFeatures;
  readonly #queue: CommandQueue;
  readonly #pool: MemoryPool;
  readonly #pipelines: PipelineCache;
  #scratch: DeviceMemory[] = [];

  constructor(features: DeviceFeatures, queue: CommandQueue, pool: MemoryPool, pipelines: PipelineCache) {
    this.features = features;
    this.#queue = queue;
    this.#pool = pool;
    this.#pipelines = pipelines;
  }

  /** Runs something that may ask for scratch, and takes that back at its end. */
  run(enqueue: (context: KernelContext) => void): void {
    try {
      enqueue(this);
    } finally {
      const scratch = this.#scratch;
      this.#scratch = [];
      for (const memory of scratch) this.#pool.release(memory);
    }
  }

  /** Makes memory ready for a command that is about to be recorded. */
  touch(memory: DeviceMemory): void {
    this.#clearIfStale(memory);
    memory.batch = this.#queue.batch;
  }

  #clearIfStale(memory: DeviceMemory): void {
    if (!memory.stale) return;
    memory.stale = false;
    fillRegion(this, { memory, byteOffset: 0, byteLength: memory.bytes }, 0);
  }

  dispatch<Binding extends string, Parameter extends string>(
    program: Program<Binding, Parameter>,
    regions: Readonly<Record<Binding, BufferRegion>>,
    parameters: ParameterValues<Parameter>,
    workgroups: Workgroups,
  ): void {
    const grid = this.#grid(program, workgroups);
    const { pipeline, layout } = this.#pipelines.get(program);
    const bound = this.#separate(program, regions);
    for (const { memory } of bound) this.#clearIfStale(memory);
    // From here on nothing else may be recorded: that could submit the batch in which the block lies.
    const block = this.#queue.reserveParameters(program.parameterBytes);
    for (const [i, binding] of program.bindings.entries()) {
      const { memory, byteOffset } = bound[i]!;
      if (byteOffset % binding.unit !== 0)
        throw new Error(
          `${program.name}: ${binding.name} starts at byte ${byteOffset}, in units of ${binding.unit}`,
        );
      block.words[block.word + i] = byteOffset / binding.unit;
      memory.batch = this.#queue.batch;
    }
    for (const parameter of program.parameters) writeParameter(block, parameter, parameters[parameter.name]);
    const memories = bound.map((region) => region.memory);
    const group = this.#pipelines.bindGroup(layout, memories);
    this.#queue.dispatch(pipeline, group, this.#pipelines.parameters, block.byteOffset, grid);
  }

  scratch(bytes: number): BufferRegion {
    const memory = this.#pool.acquire(Math.max(bytes, 1), false);
    this.#scratch.push(memory);
    return { memory, byteOffset: 0, byteLength: bytes };
  }

  copy(destination: BufferRegion, source: BufferRegion): void {
    copyRegion(this, destination, source);
  }

  fill(destination: BufferRegion, pattern: number): void {
    fillRegion(this, destination, pattern);
  }

  /** The regions in the order of the bindings, inputs out of the way of outputs. */
  #separate<Binding extends string>(
    program: Program<Binding>,
    regions: Readonly<Record<Binding, BufferRegion>>,
  ): BufferRegion[] {
    return program.bindings.map((binding, i) => {
      const region = regions[binding.name];
      for (const [j, other] of program.bindings.entries()) {
        const written = regions[other.name];
        if (i === j || other.access === "read" || written.memory !== region.memory) continue;
        if (binding.access !== "read" || overlap(region, written))
          throw new Error(`${program.name}: ${binding.name} and ${other.name} cannot be bound together`);
        return this.detached(region);
      }
      return region;
    });
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

  #grid(program: Program, workgroups: Workgroups): readonly [number, number, number] {
    const limit = this.features.limits.maxComputeWorkgroupsPerDimension;
    const grid = typeof workgroups === "number" ? foldedGrid(workgroups, limit) : workgroups;
    for (const extent of grid)
      if (!(extent > 0 && extent <= limit))
        throw new Error(
          `${program.name}: ${grid.join(" x ")} workgroups; the device allows ${limit} each way`,
        );
    return grid;
  }
}

/** At least `count` workgroups in at most two dimensions, with as few to spare as whole rows allow. */
export function foldedGrid(count: number, limit: number): readonly [number, number, number] {
  const rows = Math.ceil(count / limit);
  return [Math.ceil(count / rows), rows, 1];
}

function overlap(a: BufferRegion, b: BufferRegion): boolean {
  return a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength;
}

function writeParameter(
  block: ParameterBlock,
  parameter: ProgramParameter<string>,
  value: number | readonly number[],
): void {
  const at = block.word + parameter.word;
  if (typeof value !== "number") block.words.set(value, at);
  else if (parameter.type === "f32") block.floats[at] = value;
  else block.words[at] = value;
}
