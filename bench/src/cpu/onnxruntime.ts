import type { Case, Inputs } from "../cases/case.js";
import { type Form, onnxForms, outputName } from "./onnx-models.js";
import { loadPeer, type Peer, type PeerCase } from "./peer.js";
import { problemOf } from "./problem.js";

/** The used part of onnxruntime-web and of onnxruntime-node, which are alike. */
interface OnnxRuntime {
  readonly env: {
    readonly versions: Readonly<Record<string, string>>;
    readonly wasm: { numThreads?: number };
  };
  readonly InferenceSession: {
    create(model: Uint8Array, options: Readonly<Record<string, unknown>>): Promise<Session>;
  };
  readonly Tensor: new (type: "float32", data: Float32Array, shape: readonly number[]) => Tensor;
}

interface Tensor {
  readonly data: Float32Array;
}

type Tensors = Readonly<Record<string, Tensor>>;

interface Session {
  run(feeds: Tensors, fetches?: Tensors): Promise<Tensors>;
  release(): Promise<void>;
}

export async function openOnnxRuntimeWeb(threads: number): Promise<Peer> {
  const runtime = await loadPeer<OnnxRuntime>("onnxruntime-web");
  // Read when its WebAssembly is instantiated, by the first session.
  runtime.env.wasm.numThreads = threads;
  const open = opener(runtime, { executionProviders: ["wasm"] }, false);
  return {
    name: "onnxruntime-web",
    version: runtime.env.versions.web ?? "unknown",
    threads,
    note: "its API takes inputs from JavaScript and gives results back to it in each run",
    open,
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
    open: opener(runtime, options, true),
  };
}

/**
 * Opens the fastest of the forms that work, or throws the error of the first one. `reuse`: results go into an
 * array that was allocated before; otherwise each run returns a new one.
 */
function opener(
  runtime: OnnxRuntime,
  options: Readonly<Record<string, unknown>>,
  reuse: boolean,
): Peer["open"] {
  return async (test, inputs) => {
    const forms = onnxForms(problemOf(test), inputs);
    const working: { readonly opened: PeerCase; readonly time: number }[] = [];
    const failures: unknown[] = [];
    for (const form of forms)
      try {
        const opened = await openForm(runtime, options, reuse, form, test, inputs);
        working.push({ opened, time: forms.length === 1 ? 0 : await bestCall(opened) });
      } catch (error) {
        failures.push(error);
      }
    const [best, ...slower] = working.sort((a, b) => a.time - b.time);
    for (const { opened } of slower) await opened.close();
    if (best === undefined) throw failures[0];
    return best.opened;
  };
}

/** Milliseconds of the best of a few calls after a first one. */
async function bestCall(opened: PeerCase): Promise<number> {
  try {
    await opened.call();
    const times: number[] = [];
    for (let i = 0; i < 5; i++) {
      const start = performance.now();
      await opened.call();
      times.push(performance.now() - start);
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
  test: Case,
  inputs: Inputs,
): Promise<PeerCase> {
  const session = await InferenceSession.create(form.model, { ...options, logSeverityLevel: 3 });
  const feeds = Object.fromEntries(
    Object.entries(form.inputs).map(([name, shape]) => [
      name,
      new Tensor("float32", inputs[name]!.toArray(test.inputs[name]!), shape),
    ]),
  );
  const result = new Tensor("float32", new Float32Array(test.output.elements), form.output);
  const run = () => (reuse ? session.run(feeds, { [outputName]: result }) : session.run(feeds));
  return {
    how: form.how,
    call: async () => {
      await run();
    },
    read: async () => (await run())[outputName]!.data,
    close: () => session.release(),
  };
}
