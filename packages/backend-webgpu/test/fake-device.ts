import { DeviceMemory } from "#src/runtime/memory.js";

/** What was called, with the arguments that tests look at. */
export type Call = readonly [name: string, ...details: unknown[]];

/** A device that computes nothing and remembers what it was told to do. */
export class FakeDevice {
  readonly calls: Call[] = [];
  readonly device: GPUDevice;
  #nextName = 1;

  constructor() {
    const log = (...call: Call): void => {
      this.calls.push(call);
    };
    const make = (kind: string) => (descriptor: object) => {
      const made = {
        ...descriptor,
        label: `${kind} ${this.#nextName++}`,
        destroy: () => log("destroy", kind),
      };
      log(kind, made);
      return made;
    };
    const pass = {
      setPipeline: (pipeline: unknown) => log("setPipeline", pipeline),
      setBindGroup: (index: number, group: unknown, offsets?: readonly number[]) =>
        log("setBindGroup", index, group, ...(offsets === undefined ? [] : [[...offsets]])),
      setImmediates: (_: number, bytes: ArrayBuffer, start: number, length: number) =>
        log("setImmediates", ...new Uint32Array(bytes.slice(start, start + length))),
      dispatchWorkgroups: (x: number, y = 1, z = 1) => log("dispatch", x, y, z),
      end: () => log("endPass"),
    };
    const encoder = {
      beginComputePass: (descriptor?: GPUComputePassDescriptor) => {
        log("beginPass", ...(descriptor === undefined ? [] : [descriptor]));
        return pass;
      },
      copyBufferToBuffer: () => log("copy"),
      resolveQuerySet: () => log("resolve"),
      finish: () => ({}),
    };
    const device = {
      limits: { minUniformBufferOffsetAlignment: 256 },
      createCommandEncoder: () => encoder,
      createBuffer: make("buffer"),
      createBindGroupLayout: make("layout"),
      createPipelineLayout: make("pipelineLayout"),
      createBindGroup: make("group"),
      createShaderModule: make("module"),
      createComputePipeline: make("pipeline"),
      pushErrorScope() {},
      popErrorScope: async () => null,
      queue: {
        submit: () => log("submit"),
        writeBuffer: (_: unknown, _offset: number, data: Uint32Array, start: number, count: number) =>
          log("upload", ...data.slice(start, start + count)),
      },
    };
    this.device = device as unknown as GPUDevice;
  }

  /** The names of the calls since the last time, or those among them that are asked for. */
  taken(...names: readonly string[]): Call[] {
    const calls = this.calls.splice(0);
    return names.length === 0 ? calls : calls.filter(([name]) => names.includes(name));
  }

  count(name: string): number {
    return this.calls.filter((call) => call[0] === name).length;
  }
}

/** Memory on a fake device. */
export function fakeMemory(capacity: number, id: number): DeviceMemory {
  const memory = new DeviceMemory({ label: `memory ${id}` } as GPUBuffer, capacity, id);
  memory.bytes = capacity;
  return memory;
}
