import { decodeFloat16, encodeFloat16 } from "@backplane/core";
import type { Case, Inputs } from "../cases/case.js";
import type { ElementType } from "./onnx.js";
import { outputName } from "./onnx-draft.js";
import { type Form, onnxForms } from "./onnx-models.js";
import { loadPeer, type Peer, type PeerCase } from "./peer.js";
import { problemOf } from "./problem.js";

/** The used part of onnxruntime-web and of onnxruntime-node, which are alike. */
export interface OnnxRuntime {
  readonly env: {
    readonly versions: Readonly<Record<string, string>>;
    readonly wasm: { numThreads?: number };
  };
  readonly InferenceSession: {
    create(model: Uint8Array, options: Readonly<Record<string, unknown>>): Promise<Session>;
  };
  readonly Tensor: new (type: ElementType, data: Elements, shape: readonly number[]) => Tensor;
}

export type Elements = Float32Array | Uint16Array | Uint8Array | Int32Array | BigInt64Array;

export interface Tensor {
  readonly data: Elements;
}

/** Numbers in the array that a tensor of each type has. */
export const elements: Readonly<Record<ElementType, (numbers: Float32Array) => Elements>> = {
  float32: (numbers) => numbers,
  uint8: (numbers) => Uint8Array.from(numbers),
  int32: (numbers) => Int32Array.from(numbers),
  int64: (numbers) => BigInt64Array.from(numbers as Iterable<number>, BigInt),
  bool: (numbers) => Uint8Array.from(numbers),
  float16: encodeFloat16,
};

export type Tensors = Readonly<Record<string, Tensor>>;

export interface Session {
  run(feeds: Tensors, fetches?: Tensors): Promise<Tensors>;
  release(): Promise<void>;
}

/** Loads onnxruntime-web for so many threads, of which the caller's is one. */
export async function loadOnnxRuntimeWeb(threads: number): Promise<OnnxRuntime> {
  const runtime = await loadPeer<OnnxRuntime>("onnxruntime-web");
  // Read when its WebAssembly is instantiated, by the first session.
  runtime.env.wasm.numThreads = threads;
  return runtime;
}

export async function openOnnxRuntimeWeb(threads: number): Promise<Peer> {
  const runtime = await loadOnnxRuntimeWeb(threads);
  const options = { executionProviders: ["wasm"] };
  return {
    name: "onnxruntime-web",
    version: runtime.env.versions.web ?? "unknown",
    threads,
    note: "its API takes inputs from JavaScript and gives results back to it in each run",
    open: (test, inputs) =>
      openFastest(test, inputs, [(form) => openForm(runtime, options, false, form, inputs)]),
  };
}

export async function openOnnxRuntimeNode(threads: number): Promise<Peer> {
  const runtime = await loadPeer<OnnxRuntime>("onnxruntime-node");
  const options = { executionProviders: ["cpu"], intraOpNumThreads: threads, interOpNumThreads: 1 };
  return {
    name: "onnxruntime-node",
    version: runtime.env.versions.node ?? "unknown",
    threads,
    note: "native code; inputs and results stay in the same arrays",
    open: (test, inputs) =>
      openFastest(test, inputs, [(form) => openForm(runtime, options, true, form, inputs)]),
  };
}

/** Opens a case in the fastest of the forms and ways that work, or throws the error of the first one. */
export async function openFastest(
  test: Case,
  inputs: Inputs,
  ways: readonly ((form: Form) => Promise<PeerCase>)[],
  opsets?: readonly number[],
): Promise<PeerCase> {
  const forms = onnxForms(problemOf(test), inputs, opsets);
  const openers = forms.flatMap((form) => ways.map((open) => () => open(form)));
  const working: { readonly opened: PeerCase; readonly time: number }[] = [];
  const failures: unknown[] = [];
  for (const open of openers)
    try {
      const opened = await open();
      working.push({ opened, time: openers.length === 1 ? 0 : await bestCall(opened) });
    } catch (error) {
      failures.push(error);
    }
  const [best, ...slower] = working.sort((a, b) => a.time - b.time);
  for (const { opened } of slower) await opened.close();
  if (best === undefined) throw failures[0];
  return best.opened;
}

/** Milliseconds of a call, the best of a few after a first one. Calls that return before they are done follow one another. */
async function bestCall(opened: PeerCase): Promise<number> {
  const calls = opened.finish === undefined ? 1 : 16;
  try {
    await opened.call();
    const times: number[] = [];
    for (let i = 0; i < 5; i++) {
      const start = performance.now();
      for (let j = 0; j < calls; j++) await opened.call();
      await opened.finish?.();
      times.push((performance.now() - start) / calls);
    }
    return Math.min(...times);
  } catch (error) {
    await opened.close();
    throw error;
  }
}

async function openForm(
  { InferenceSession, Tensor }: OnnxRuntime,
  options: Readonly<Record<string, unknown>>,
  reuse: boolean,
  form: Form,
  inputs: Inputs,
): Promise<PeerCase> {
  const session = await InferenceSession.create(form.model, { ...options, logSeverityLevel: 3 });
  const tensors = (shapes: Form["inputs"], numbers: (name: string, count: number) => Float32Array): Tensors =>
    Object.fromEntries(
      Object.entries(shapes).map(([name, shape]) => {
        const { [name]: type = "float32" } = form.types;
        const count = shape.reduce((a, b) => a * b, 1);
        return [name, new Tensor(type, elements[type](numbers(name, count)), shape)];
      }),
    );
  const feeds = tensors(form.inputs, (name, count) => inputs[name]!.toArray(count));
  const results = reuse ? tensors(form.outputs, (_, count) => new Float32Array(count)) : undefined;
  const run = () => session.run(feeds, results);
  return {
    how: form.how,
    call: async () => {
      await run();
    },
    read: async () => {
      const { data } = (await run())[outputName]!;
      if (data instanceof Uint16Array) return decodeFloat16(data);
      return data instanceof BigInt64Array ? Float64Array.from(data, Number) : data;
    },
    close: () => session.release(),
  };
}
