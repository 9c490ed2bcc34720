import { BackendError } from "@backplane/core";
import {
  type Dialect,
  type ParameterSpace,
  type Program,
  parameterSpace,
  sourceIn,
} from "../program/index.js";
import type { BoundBuffers, DeviceMemory } from "./memory.js";
import { PARAMETER_BLOCK_BYTES } from "./parameters.js";

const COMPUTE_STAGE = 0x4;

/** The objects that programs with the same kinds of bindings share. */
export interface Layout {
  readonly id: number;
  readonly space: ParameterSpace;
  readonly buffers: GPUBindGroupLayout;
  readonly pipeline: GPUPipelineLayout;
}

/** A program, ready to run or about to be. */
export interface Pipeline {
  readonly program: Program;
  /** Undefined until the device has compiled it. */
  readonly pipeline: GPUComputePipeline | undefined;
  /** Resolves when the device has compiled it, or refused to; undefined before and after that. */
  readonly compiling: Promise<void> | undefined;
  readonly layout: Layout;
  /** Words of the parameter block. */
  readonly parameterWords: number;
}

export interface PipelineOptions extends Dialect {
  /** Has the blocks of programs whose parameters are in the space "uniform". */
  readonly parameterBuffer: GPUBuffer;
  /** The most that one binding shows of a buffer. */
  readonly windowBytes: number;
  /** Whether commands can wait for their pipelines at this time. Default: never. */
  mayWait?(): boolean;
}

/** As `Pipeline`, for the cache that changes it. */
type PipelineInCache = { -readonly [Member in keyof Pipeline]: Pipeline[Member] };

/** Bind groups kept at most. They are cheap to make again. */
const MAX_BIND_GROUPS = 4096;

/** Makes pipelines, layouts and bind groups, each once. */
export class PipelineCache {
  readonly #device: GPUDevice;
  readonly #options: PipelineOptions;
  readonly #layouts = new Map<string, Layout>();
  readonly #bySource = new Map<string, GPUComputePipeline>();
  readonly #byProgram = new Map<Program, PipelineInCache>();
  /** By source: the compilations that `prepare` has begun and the device has not finished. */
  readonly #compiling = new Map<string, Promise<void>>();
  /** Those whose keys are the same lie in one list; which of them it is, their contents tell. */
  readonly #bindGroups = new Map<number, BoundBuffers[]>();
  #bindGroupCount = 0;

  constructor(device: GPUDevice, options: PipelineOptions) {
    this.#device = device;
    this.#options = options;
  }

  /** Pipelines that exist. */
  get size(): number {
    return this.#bySource.size;
  }

  /**
   * Returns the pipeline of a program. If it is not compiled, and commands can wait, the device compiles it meanwhile, beside
   * others: see `Pipeline.compiling`. Else the caller waits, and the device may still be busy with the pipeline, and
   * so refuses a faulty one later: in messages it has the name of the program.
   */
  get(program: Program): Pipeline {
    const known = this.#byProgram.get(program);
    if (known !== undefined) return known;
    const space = this.#spaceOf(program);
    const layout = this.#layout(program, space);
    const pipeline = this.#bySource.get(this.#sourceOf(program, space));
    const added: PipelineInCache = {
      ...{ program, pipeline, layout, parameterWords: program.parameterBytes / 4 },
      compiling: undefined,
    };
    this.#byProgram.set(program, added);
    if (pipeline === undefined) {
      if (this.#options.mayWait?.() === true) this.#compileMeanwhile(added);
      else this.compiled(added);
    }
    return added;
  }

  /** Returns the pipeline itself. Compiles it at once if it is not compiled, whether or not the device is at work on it. */
  compiled(pipeline: Pipeline): GPUComputePipeline {
    if (pipeline.pipeline !== undefined) return pipeline.pipeline;
    const { program, layout } = pipeline;
    const source = this.#sourceOf(program, layout.space);
    let made = this.#bySource.get(source);
    if (made === undefined) {
      made = this.#device.createComputePipeline(this.#descriptor(program, layout, source));
      this.#bySource.set(source, made);
    }
    Object.assign(pipeline as PipelineInCache, { pipeline: made, compiling: undefined });
    return made;
  }

  /** If the device refuses the program, `compiled` asks for it again, and the refusal is reported like any other. */
  #compileMeanwhile(pipeline: PipelineInCache): void {
    const { program, layout } = pipeline;
    const source = this.#sourceOf(program, layout.space);
    const end = (): void => {
      pipeline.compiling = undefined;
      pipeline.pipeline ??= this.#bySource.get(source);
    };
    pipeline.compiling = this.#prepare(program).then(end, end);
  }

  /**
   * Compiles programs without blocking the caller, several at a time. Rejects with `DEVICE_ERROR`, naming the
   * first program that the device refuses; the others are prepared nevertheless.
   */
  async prepare(programs: Iterable<Program>): Promise<void> {
    const results = await Promise.allSettled(Array.from(programs, (program) => this.#prepare(program)));
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }

  /**
   * Returns a group that binds the first `count` of `memories`, each from the byte in `starts` on, in the
   * order of the program's bindings. Makes no garbage if there is such a group already.
   */
  bindGroup(
    layout: Layout,
    memories: readonly DeviceMemory[],
    starts: readonly number[],
    count: number,
  ): GPUBindGroup {
    let key = layout.id;
    for (let i = 0; i < count; i++)
      key = (Math.imul(key, 0x01000193) ^ memories[i]!.id ^ (starts[i]! >>> 8)) & 0x3fffffff;
    const bucket = this.#bindGroups.get(key);
    if (bucket !== undefined)
      for (const bound of bucket) if (binds(bound, layout, memories, starts, count)) return bound.group;
    return this.#bind(key, layout, memories.slice(0, count), starts.slice(0, count));
  }

  /** Bind groups keep a buffer's storage alive, so they go with the buffer. */
  forget(memory: DeviceMemory): void {
    for (const bound of memory.bindGroups) this.#drop(bound);
  }

  #prepare(program: Program): Promise<void> {
    const space = this.#spaceOf(program);
    const source = this.#sourceOf(program, space);
    if (this.#bySource.has(source)) return Promise.resolve();
    const underWay = this.#compiling.get(source);
    if (underWay !== undefined) return underWay;
    const compiling = this.#compile(program, space, source)
      .then((pipeline) => {
        // Unless an operation was in need of it meanwhile.
        if (!this.#bySource.has(source)) this.#bySource.set(source, pipeline);
      })
      .finally(() => this.#compiling.delete(source));
    this.#compiling.set(source, compiling);
    return compiling;
  }

  async #compile(program: Program, space: ParameterSpace, source: string): Promise<GPUComputePipeline> {
    // The module knows the error in the text; the pipeline only knows that there is one.
    this.#device.pushErrorScope("validation");
    const descriptor = this.#descriptor(program, this.#layout(program, space), source);
    // If the device is lost, there is nothing to pop, and the pipeline fails.
    const complaint = this.#device.popErrorScope().catch(() => null);
    try {
      return await this.#device.createComputePipelineAsync(descriptor);
    } catch (cause) {
      const reason = (await complaint)?.message ?? (cause instanceof Error ? cause.message : String(cause));
      throw new BackendError("DEVICE_ERROR", `the device refuses the program ${program.name}: ${reason}`, {
        cause,
      });
    }
  }

  #descriptor(program: Program, layout: Layout, source: string): GPUComputePipelineDescriptor {
    const module = this.#device.createShaderModule({ label: program.name, code: source });
    return { label: program.name, layout: layout.pipeline, compute: { module, entryPoint: "main" } };
  }

  #sourceOf(program: Program, space: ParameterSpace): string {
    return sourceIn(program, space, this.#options.packsExactly);
  }

  #spaceOf(program: Program): ParameterSpace {
    if (program.parameterBytes > PARAMETER_BLOCK_BYTES)
      throw new Error(`${program.name}: ${program.parameterBytes} bytes of parameters`);
    return parameterSpace(program, this.#options.immediateBytes);
  }

  #layout({ bindings }: Program, space: ParameterSpace): Layout {
    const key = [space, ...bindings.map(({ access }) => access)].join(" ");
    const known = this.#layouts.get(key);
    if (known !== undefined) return known;
    const entry = (buffer: GPUBufferBindingLayout, binding: number): GPUBindGroupLayoutEntry => ({
      ...{ binding, visibility: COMPUTE_STAGE, buffer },
    });
    const entries = bindings.map(({ access }, binding) =>
      entry({ type: access === "read" ? "read-only-storage" : "storage" }, binding),
    );
    if (space === "uniform") entries.push(entry({ type: "uniform", hasDynamicOffset: true }, entries.length));
    const buffers = this.#device.createBindGroupLayout({ label: key, entries });
    const pipeline = this.#device.createPipelineLayout({
      ...{ label: key, bindGroupLayouts: [buffers] },
      ...(space === "immediate" ? { immediateSize: this.#options.immediateBytes } : {}),
    });
    const layout = { id: this.#layouts.size + 1, space, buffers, pipeline };
    this.#layouts.set(key, layout);
    return layout;
  }

  #bind(
    key: number,
    layout: Layout,
    memories: readonly DeviceMemory[],
    starts: readonly number[],
  ): GPUBindGroup {
    if (this.#bindGroupCount >= MAX_BIND_GROUPS)
      for (const bucket of [...this.#bindGroups.values()]) for (const bound of [...bucket]) this.#drop(bound);
    const { windowBytes, parameterBuffer } = this.#options;
    const entries: GPUBindGroupEntry[] = memories.map(({ buffer, capacity }, binding) => {
      const offset = starts[binding]!;
      return { binding, resource: { buffer, offset, size: Math.min(capacity - offset, windowBytes) } };
    });
    if (layout.space === "uniform")
      entries.push({
        ...{ binding: entries.length, resource: { buffer: parameterBuffer, size: PARAMETER_BLOCK_BYTES } },
      });
    const group = this.#device.createBindGroup({ layout: layout.buffers, entries });
    const bound: BoundBuffers = { key, layout, memories, starts, group };
    const bucket = this.#bindGroups.get(key);
    if (bucket === undefined) this.#bindGroups.set(key, [bound]);
    else bucket.push(bound);
    this.#bindGroupCount++;
    for (const memory of memories) memory.bindGroups.add(bound);
    return group;
  }

  #drop(bound: BoundBuffers): void {
    for (const memory of bound.memories) memory.bindGroups.delete(bound);
    const bucket = this.#bindGroups.get(bound.key)!;
    if (bucket.length === 1) this.#bindGroups.delete(bound.key);
    else bucket.splice(bucket.indexOf(bound), 1);
    this.#bindGroupCount--;
  }
}

function binds(
  bound: BoundBuffers,
  layout: Layout,
  memories: readonly DeviceMemory[],
  starts: readonly number[],
  count: number,
): boolean {
  if (bound.layout !== layout || bound.memories.length !== count) return false;
  for (let i = 0; i < count; i++)
    if (bound.memories[i] !== memories[i] || bound.starts[i] !== starts[i]) return false;
  return true;
}
