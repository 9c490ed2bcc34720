import type { DeviceMemory } from "./memory.js";
import type { Program } from "./program.js";
import { PARAMETER_BLOCK_BYTES } from "./queue.js";

const COMPUTE_STAGE = 0x4;

/** What programs with the same kinds of bindings share. */
interface Layout {
  readonly id: number;
  readonly buffers: GPUBindGroupLayout;
  readonly pipeline: GPUPipelineLayout;
}

export interface Pipeline {
  readonly pipeline: GPUComputePipeline;
  readonly layout: Layout;
}

interface BoundBuffers {
  readonly group: GPUBindGroup;
  readonly memories: readonly DeviceMemory[];
}

/** Bind groups kept at most. They are cheap to make again. */
const MAX_BIND_GROUPS = 4096;

/** Makes pipelines, layouts and bind groups, each once. */
export class PipelineCache {
  /** The parameter block of every program: one uniform binding with a dynamic offset. */
  readonly parameters: GPUBindGroup;
  readonly #device: GPUDevice;
  readonly #parameterLayout: GPUBindGroupLayout;
  readonly #layouts = new Map<string, Layout>();
  readonly #bySource = new Map<string, Pipeline>();
  readonly #byProgram = new WeakMap<Program, Pipeline>();
  readonly #bindGroups = new Map<string, BoundBuffers>();

  constructor(device: GPUDevice, parameterBuffer: GPUBuffer) {
    this.#device = device;
    this.#parameterLayout = device.createBindGroupLayout({
      label: "parameters",
      entries: [
        { binding: 0, visibility: COMPUTE_STAGE, buffer: { type: "uniform", hasDynamicOffset: true } },
      ],
    });
    this.parameters = device.createBindGroup({
      label: "parameters",
      layout: this.#parameterLayout,
      entries: [{ binding: 0, resource: { buffer: parameterBuffer, size: PARAMETER_BLOCK_BYTES } }],
    });
  }

  get(program: Program): Pipeline {
    const known = this.#byProgram.get(program) ?? this.#bySource.get(program.source);
    const pipeline = known ?? this.#compile(program);
    this.#byProgram.set(program, pipeline);
    return pipeline;
  }

  /** A group that binds whole buffers, in the order of the program's bindings. */
  bindGroup(layout: Layout, memories: readonly DeviceMemory[]): GPUBindGroup {
    let key = `${layout.id}`;
    for (const memory of memories) key += `,${memory.id}`;
    const known = this.#bindGroups.get(key);
    if (known !== undefined) return known.group;
    if (this.#bindGroups.size >= MAX_BIND_GROUPS) this.#drop([...this.#bindGroups.keys()]);
    const group = this.#device.createBindGroup({
      label: key,
      layout: layout.buffers,
      entries: memories.map(({ buffer }, binding) => ({ binding, resource: { buffer } })),
    });
    this.#bindGroups.set(key, { group, memories });
    for (const memory of memories) memory.bindGroups.add(key);
    return group;
  }

  /** Bind groups keep a buffer's storage alive, so they go with the buffer. */
  forget(memory: DeviceMemory): void {
    this.#drop([...memory.bindGroups]);
  }

  #drop(keys: readonly string[]): void {
    for (const key of keys) {
      for (const memory of this.#bindGroups.get(key)!.memories) memory.bindGroups.delete(key);
      this.#bindGroups.delete(key);
    }
  }

  #compile(program: Program): Pipeline {
    if (program.parameterBytes > PARAMETER_BLOCK_BYTES)
      throw new Error(`${program.name}: ${program.parameterBytes} bytes of parameters`);
    const layout = this.#layout(program.bindings.map(({ access }) => access));
    const module = this.#device.createShaderModule({ label: program.name, code: program.source });
    const pipeline = this.#device.createComputePipeline({
      label: program.name,
      layout: layout.pipeline,
      compute: { module, entryPoint: "main" },
    });
    const compiled = { pipeline, layout };
    this.#bySource.set(program.source, compiled);
    return compiled;
  }

  #layout(accesses: readonly ("read" | "read_write")[]): Layout {
    const key = accesses.join();
    const known = this.#layouts.get(key);
    if (known !== undefined) return known;
    const buffers = this.#device.createBindGroupLayout({
      label: key,
      entries: accesses.map((access, binding) => ({
        binding,
        visibility: COMPUTE_STAGE,
        buffer: { type: access === "read" ? "read-only-storage" : "storage" },
      })),
    });
    const pipeline = this.#device.createPipelineLayout({
      label: key,
      bindGroupLayouts: [buffers, this.#parameterLayout],
    });
    const layout = { id: this.#layouts.size, buffers, pipeline };
    this.#layouts.set(key, layout);
    return layout;
  }
}
