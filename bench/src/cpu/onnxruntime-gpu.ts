import { decodeFloat16 } from "@backplane/core";
import type { Inputs } from "../cases/case.js";
import { type ElementType, encodeModel, newestOpset } from "./onnx.js";
import { outputName } from "./onnx-draft.js";
import type { Form } from "./onnx-models.js";
import {
  type Elements,
  elements,
  type OnnxRuntime,
  openFastest,
  type Session,
  type Tensor,
  type Tensors,
} from "./onnxruntime.js";
import { type GpuPeerName, loadPeer, type Peer, type PeerCase } from "./peer.js";

/** onnxruntime-web with its backend for WebGPU. */
export interface OnnxRuntimeOnGpu extends OnnxRuntime {
  readonly env: OnnxRuntime["env"] & {
    /** There from the first session on. */
    readonly webgpu: { readonly device: GPUDevice | Promise<GPUDevice> };
  };
  readonly Tensor: OnnxRuntime["Tensor"] & {
    fromGpuBuffer(
      buffer: GPUBuffer,
      options: { readonly dataType: ElementType; readonly dims: readonly number[] },
    ): GpuTensor;
  };
}

/** Its backends for WebGPU: the newer one is in C++, the older one in JavaScript. */
export type OnnxGpuBackend = "C++" | "JavaScript";

/** Its backend in JavaScript has no kernels for the newest versions of many operators. */
const opsets = [newestOpset, 20];

let isPrepared = false;

/** Buffers that were read back so far. */
let downloads = 0;

/** Counts what is read back: onnxruntime-web computes on the CPU what it has no kernel for. */
function countDownloads(buffers: GPUBuffer): void {
  const map = buffers.mapAsync;
  buffers.mapAsync = function (this: GPUBuffer, ...range) {
    downloads++;
    return map.apply(this, range);
  };
}

/** Loads it in a process whose globals have WebGPU. */
export async function loadOnnxRuntimeOnGpu(backend: OnnxGpuBackend): Promise<OnnxRuntimeOnGpu> {
  if (!isPrepared) {
    acceptSharedMemory(GPUQueue.prototype);
    countDownloads(GPUBuffer.prototype);
    isPrepared = true;
  }
  // WebAssembly waits for promises by itself, or by Asyncify, which is slower.
  const newer = "Suspending" in WebAssembly ? "jspi" : "webgpu";
  const runtime = await loadPeer<OnnxRuntimeOnGpu>(`onnxruntime-web/${backend === "C++" ? newer : "all"}`);
  runtime.env.wasm.numThreads = 1;
  return runtime;
}

/**
 * Lets `writeBuffer` take memory that threads share, as the standard has it, and as the memory of onnxruntime-web always is: Dawn
 * in Node.js throws.
 */
function acceptSharedMemory(queue: GPUQueue): void {
  const write = queue.writeBuffer;
  queue.writeBuffer = function (this: GPUQueue, buffer, offset, data, start = 0, size?: number) {
    const bytes = data instanceof SharedArrayBuffer ? new Uint8Array(data) : data;
    if (!(bytes instanceof Uint8Array && bytes.buffer instanceof SharedArrayBuffer))
      return write.call(this, buffer, offset, data as BufferSource, start, size);
    const end = size === undefined ? bytes.length : start + size;
    return write.call(this, buffer, offset, bytes.slice(start, end));
  } as GPUQueue["writeBuffer"];
}

/** Options of sessions. */
export const onGpu = {
  executionProviders: ["webgpu"],
  preferredOutputLocation: "gpu-buffer",
  logSeverityLevel: 3,
} as const;

/** Opens the faster of two ways for each form: calls of the kernels, and a recording of them. */
export async function openOnnxRuntimeOnGpu(backend: OnnxGpuBackend): Promise<Peer<GpuPeerName>> {
  const runtime = await loadOnnxRuntimeOnGpu(backend);
  return {
    name: backend === "C++" ? "onnxruntime-web" : "onnxruntime-web-jsep",
    version: runtime.env.versions.web ?? "unknown",
    threads: 1,
    note: "inputs and results stay in the same buffers; the faster of calls and a captured graph",
    open: (test, inputs) =>
      openFastest(
        test,
        inputs,
        [(form) => openForm(runtime, form, inputs, false), (form) => openForm(runtime, form, inputs, true)],
        opsets,
      ),
  };
}

async function openForm(
  runtime: OnnxRuntimeOnGpu,
  form: Form,
  inputs: Inputs,
  captured: boolean,
): Promise<PeerCase> {
  const session = await runtime.InferenceSession.create(form.model, {
    ...onGpu,
    enableGraphCapture: captured,
  });
  const memory = new TensorMemory(runtime, await runtime.env.webgpu.device, captured);
  const close = async () => {
    await session.release();
    await memory.free();
  };
  try {
    const feeds = await memory.tensors(form.inputs, form.types, (name, count) =>
      inputs[name]!.toArray(count),
    );
    const results = await memory.tensors(form.outputs, form.types);
    const before = downloads;
    await session.run(feeds, results);
    if (downloads > before) throw new Error("no kernel for WebGPU: it computes on the CPU");
    return {
      how: captured ? `${form.how}, captured` : form.how,
      call: async () => {
        await session.run(feeds, results);
      },
      finish: () => memory.device.queue.onSubmittedWorkDone(),
      read: async () => {
        await session.run(feeds, results);
        return memory.read(outputName);
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const wordBytes = 4;

interface GpuTensor extends Tensor {
  readonly gpuBuffer: GPUBuffer;
  dispose(): void;
}

interface Stored {
  readonly tensor: GpuTensor;
  readonly type: ElementType;
  readonly count: number;
}

/** Tensors on the device of onnxruntime-web. */
export class TensorMemory {
  readonly device: GPUDevice;
  readonly #runtime: OnnxRuntimeOnGpu;
  readonly #isOwned: boolean;
  readonly #stored = new Map<string, Stored>();
  readonly #sessions: Session[] = [];

  /**
   * @param isOwned whether onnxruntime-web has made the memory. It lets go of buffers of others after each run, so that a captured
   *   graph of its backend in C++ no longer finds them.
   */
  constructor(runtime: OnnxRuntimeOnGpu, device: GPUDevice, isOwned: boolean) {
    this.#runtime = runtime;
    this.device = device;
    this.#isOwned = isOwned;
  }

  /** Tensors by name, with these numbers or zeros. */
  async tensors(
    shapes: Form["inputs"],
    types: Form["types"],
    numbers?: (name: string, count: number) => Float32Array,
  ): Promise<Tensors> {
    const contents = Object.entries(shapes).map(([name, shape]) => {
      const { [name]: type = "float32" } = types;
      const count = shape.reduce((a, b) => a * b, 1);
      return {
        name,
        shape,
        type,
        count,
        data: elements[type](numbers?.(name, count) ?? new Float32Array(count)),
      };
    });
    const made = this.#isOwned
      ? await this.#outputs(contents)
      : contents.map(({ type, shape, data }) => this.#wrapped(type, shape, data));
    return Object.fromEntries(
      contents.map(({ name, type, count }, i) => {
        const tensor = made[i]!;
        this.#stored.set(name, { tensor, type, count });
        return [name, tensor];
      }),
    );
  }

  buffer(name: string): GPUBuffer {
    return this.#stored.get(name)!.tensor.gpuBuffer;
  }

  /** The numbers of one of them. */
  async read(name: string): Promise<ArrayLike<number>> {
    const { tensor, type, count } = this.#stored.get(name)!;
    const { gpuBuffer } = tensor;
    const { size } = gpuBuffer;
    const staging = this.device.createBuffer({
      size,
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(gpuBuffer, 0, staging, 0, size);
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const bytes = staging.getMappedRange().slice(0);
    staging.destroy();
    return numbersOf(type, bytes, count);
  }

  async free(): Promise<void> {
    for (const { tensor } of this.#stored.values())
      if (this.#isOwned) tensor.dispose();
      else tensor.gpuBuffer.destroy();
    for (const session of this.#sessions) await session.release();
  }

  /** In a buffer of ours. */
  #wrapped(type: ElementType, dims: readonly number[], data: Elements): GpuTensor {
    const size = Math.ceil(data.byteLength / wordBytes) * wordBytes;
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = this.device.createBuffer({ size, usage });
    const bytes = new Uint8Array(size);
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    this.device.queue.writeBuffer(buffer, 0, bytes);
    return this.#runtime.Tensor.fromGpuBuffer(buffer, { dataType: type, dims });
  }

  /** As outputs of a model that only hands its inputs on. */
  async #outputs(
    contents: readonly {
      readonly name: string;
      readonly shape: readonly number[];
      readonly type: ElementType;
      readonly data: Elements;
    }[],
  ): Promise<GpuTensor[]> {
    const { InferenceSession, Tensor } = this.#runtime;
    const output = (name: string) => `made ${name}`;
    const model = encodeModel({
      nodes: contents.map(({ name }) => ({ op: "Identity", inputs: [name], output: output(name) })),
      inputs: Object.fromEntries(contents.map(({ name, shape }) => [name, shape])),
      outputs: Object.fromEntries(contents.map(({ name, shape }) => [output(name), shape])),
      types: Object.fromEntries(
        contents.flatMap(({ name, type }) => [
          [name, type],
          [output(name), type],
        ]),
      ),
    });
    const session = await InferenceSession.create(model, onGpu);
    this.#sessions.push(session);
    const made = await session.run(
      Object.fromEntries(
        contents.map(({ name, type, data, shape }) => [name, new Tensor(type, data, shape)]),
      ),
    );
    return contents.map(({ name }) => made[output(name)] as GpuTensor);
  }
}

function numbersOf(type: ElementType, bytes: ArrayBuffer, count: number): ArrayLike<number> {
  switch (type) {
    case "float32":
      return new Float32Array(bytes, 0, count);
    case "float16":
      return decodeFloat16(new Uint16Array(bytes, 0, count));
    case "int32":
      return new Int32Array(bytes, 0, count);
    case "int64":
      return Float64Array.from(new BigInt64Array(bytes, 0, count), Number);
    case "uint8":
    case "bool":
      return new Uint8Array(bytes, 0, count);
  }
}
