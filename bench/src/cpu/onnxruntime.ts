import type { Case, Inputs } from "../cases/case.js";
import { type Form, onnxForms, outputName } from "./onnx-models.js";
import { loadPeer, type Peer, type PeerCase } from "./peer.js";
import { problemOf } from "./problem.js";

/** What is used of onnxruntime-web and of onnxruntime-node, which are alike. */
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

/** `reuse`: results go into an array that was allocated before; otherwise each run gives a new one. */
function opener(
  runtime: OnnxRuntime,
  options: Readonly<Record<string, unknown>>,
  reuse: boolean,
): Peer["open"] {
  return async (test, inputs) => {
    const forms = onnxForms(problemOf(test), inputs);
    const cases: PeerCase[] = [];
    const failures: unknown[] = [];
    for (const form of forms)
      try {
        cases.push(await openForm(runtime, options, reuse, form, test, inputs));
      } catch (error) {
        failures.push(error);
      }
    if (cases.length === 0) throw failures[0];
    return fastest(cases);
  };
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

/** Keeps the one whose third call takes least, and closes the others. */
async function fastest(cases: readonly PeerCase[]): Promise<PeerCase> {
  if (cases.length === 1) return cases[0]!;
  const seconds: number[] = [];
  for (const one of cases) {
    await one.call();
    await one.call();
    const start = performance.now();
    await one.call();
    seconds.push(performance.now() - start);
  }
  const best = seconds.indexOf(Math.min(...seconds));
  for (const [i, one] of cases.entries()) if (i !== best) await one.close();
  return cases[best]!;
}
