import type { Case, Inputs } from "../cases/case.js";
import { installedVersion } from "./installed.js";
import type { Extents, Jax, JaxArray, JaxDevice } from "./jax-api.js";
import { prepare } from "./jax-problems.js";
import { permuted } from "./layout.js";
import { type GpuPeerName, loadPeer, type Peer, type PeerCase } from "./peer.js";
import { problemInF32 } from "./problem.js";
import { WebWorker } from "./web-worker.js";

export async function openJax(threads: number): Promise<Peer> {
  const jax = await asInPage(threads, () => loadJax("wasm"));
  return {
    name: "jax-js",
    version: installedVersion("@jax-js/jax"),
    threads,
    note:
      threads > 1
        ? "jit; arrays stay inside; a stand-in for the Worker of pages gives it threads in Node.js"
        : "jit; arrays stay inside",
    open: async (test, inputs) => {
      const { opened } = openCase(jax, test, inputs);
      return { ...opened, read: () => asInPage(threads, opened.read) };
    },
  };
}

/** Results that are kept until the device is waited for. */
const mostKept = 16;

/** On WebGPU, whose globals must be there. */
export async function openJaxOnGpu(): Promise<Peer<GpuPeerName>> {
  const jax = await loadJax("webgpu");
  return {
    name: "jax-js",
    version: installedVersion("@jax-js/jax"),
    threads: 1,
    note: "jit; arrays stay inside; waits for every 16th call",
    open: async (test, inputs) => {
      const { opened, run } = openCase(jax, test, inputs);
      const kept: JaxArray[] = [];
      const finish = async () => {
        await jax.blockUntilReady(kept);
        for (const result of kept.splice(0)) result.dispose();
      };
      // Work whose results nobody has waited for would not be done.
      const call = (): void | Promise<void> => {
        kept.push(...run());
        if (kept.length >= mostKept) return finish();
      };
      return { ...opened, call, finish };
    },
  };
}

async function loadJax(device: JaxDevice): Promise<Jax> {
  const jax = await loadPeer<Jax>("@jax-js/jax");
  if (!(await jax.init(device)).includes(device)) throw new Error(`jax-js has no ${device} here`);
  jax.defaultDevice(device);
  return jax;
}

function openCase(jax: Jax, test: Case, inputs: Inputs): { opened: PeerCase; run: () => JaxArray[] } {
  const array = (name: string) => inputs[name]!.toArray(test.inputs[name]!);
  const prepared = prepare(jax, problemInF32(test, "jax-js"));
  const { how, shapes, types = {}, compute, layout, more = () => [], gradient, by } = prepared;
  const opened = (name: string, shape: Extents) => {
    const { [name]: dtype = "float32" } = types;
    if (dtype !== "float32") return jax.numpy.array(Int32Array.from(array(name)), { shape, dtype });
    if (layout === undefined || shape.length !== layout.length)
      return jax.numpy.array(array(name), { shape, dtype });
    const ordered = layout.map((axis) => shape[axis]!);
    return jax.numpy.array(permuted(array(name), shape, layout), { shape: ordered, dtype });
  };
  const arrays = [...Object.entries(shapes).map(([name, shape]) => opened(name, shape)), ...more()];
  const compiled = jax.jit(compute);
  if (gradient === undefined) {
    const run = () => [compiled(...arrays.map((each) => each.ref))].flat();
    return { opened: asCase(how, arrays, run, layout, false), run };
  }
  // What the function leaves is kept: only the way back is timed.
  const whole = (...values: JaxArray[]) => compiled(...values) as JaxArray;
  const ofOne = (value: JaxArray) =>
    compiled(...arrays.map((each, i) => (i === by ? value : each.ref))) as JaxArray;
  const wanted = by === undefined ? arrays : [arrays[by]!];
  const [result, pullBack] = jax.vjp(
    by === undefined ? whole : ofOne,
    wanted.map((each) => each.ref),
  );
  result.dispose();
  const change = opened(gradient.name, gradient.shape);
  const run = () => [...pullBack(change.ref)];
  return { opened: asCase(how, [...arrays, change, pullBack], run, layout, true), run };
}

/**
 * Runs those steps of jax-js that look at globals: loading, and the first call of a function, which compiles
 * and starts workers. If there is a Worker as in pages, it starts one for each thread that the navigator
 * reports; onnxruntime-web leaves Node.js's own Worker behind, which is another class.
 */
export async function asInPage<Result>(threads: number, work: () => Promise<Result>): Promise<Result> {
  const globals = {
    Worker: threads > 1 ? WebWorker : undefined,
    navigator: { hardwareConcurrency: threads },
  };
  const before = new Map<string, PropertyDescriptor | undefined>();
  for (const [name, value] of Object.entries(globals)) {
    before.set(name, Object.getOwnPropertyDescriptor(globalThis, name));
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  try {
    return await work();
  } finally {
    for (const [name, descriptor] of before)
      if (descriptor === undefined) Reflect.deleteProperty(globalThis, name);
      else Object.defineProperty(globalThis, name, descriptor);
  }
}

function asCase(
  how: string,
  kept: readonly { dispose(): void }[],
  run: () => JaxArray[],
  layout: Extents | undefined,
  /** Whether all results are those of the case, one after the other, or only the first. */
  takesAll: boolean,
): PeerCase {
  return {
    how,
    call: async () => {
      for (const result of run()) {
        await result.blockUntilReady();
        result.dispose();
      }
    },
    read: async () => {
      const results = run();
      const parts: ArrayLike<number>[] = [];
      for (const [i, result] of results.entries()) {
        if (i > 0 && !takesAll) {
          result.dispose();
          continue;
        }
        const { shape } = result;
        const data = await result.data();
        // The layouts here swap two axes: they are their own inverse.
        parts.push(layout === undefined ? data : permuted(data, shape, layout));
      }
      return parts.length === 1 ? parts[0]! : Float32Array.from(parts.flatMap((part) => Array.from(part)));
    },
    close() {
      for (const each of kept) each.dispose();
    },
  };
}
