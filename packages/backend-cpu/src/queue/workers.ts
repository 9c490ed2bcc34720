import type { KernelCode } from "../kernels/instance.js";
import { nodeProcess } from "../node-process.js";

/** The data with which a worker starts. */
export interface WorkerStart {
  readonly kernels: KernelCode;
  readonly memory: WebAssembly.Memory;
  /** Address of this worker's scratch. */
  readonly scratch: number;
  /** Its number, from 0. */
  readonly worker: number;
}

export interface WorkerListeners {
  /** A message from the worker: `ready` once, then `progress` whenever asked for. */
  message(text: string): void;
  /** The worker has failed or has ended by itself. */
  ended(reason: string): void;
}

/** A worker, with the same interface in Node and in pages. It boots from the moment it is spawned. */
export interface WorkerHandle {
  /** Sends the data to work with. May be called long before the worker is up; once only. */
  start(start: WorkerStart): void;
  /** Whether it keeps the process alive. Has no effect in pages. */
  hold(alive: boolean): void;
  /** Stops it in the middle of its work, without reporting it as ended. */
  terminate(): Promise<void>;
  /** Stops it and reports it as ended: for tests of a worker's death. */
  kill(): Promise<void>;
}

/** `worker` is its number, from 0. */
export type SpawnWorker = (worker: number, listeners: WorkerListeners) => WorkerHandle;

export const spawnWorker: SpawnWorker = (worker, listeners) =>
  nodeProcess === undefined ? spawnInPage(listeners) : spawnInNode(nodeProcess, worker, listeners);

function spawnInPage(listeners: WorkerListeners): WorkerHandle {
  // One expression, because bundlers look for this form.
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }: MessageEvent<string>) => listeners.message(data);
  worker.onerror = (event) => listeners.ended(event.message || "its script could not be loaded");
  return {
    start: (start) => worker.postMessage(start),
    hold: () => {},
    terminate: async () => worker.terminate(),
    async kill() {
      worker.terminate();
      listeners.ended("it was killed");
    },
  };
}

function spawnInNode(process: NodeJS.Process, number: number, listeners: WorkerListeners): WorkerHandle {
  const { Worker } = process.getBuiltinModule("node:worker_threads");
  const worker = new Worker(new URL("./worker.js", import.meta.url), {
    name: `backplane-cpu-${number}`,
    // Loaders and inspectors of the program do not belong in workers.
    execArgv: [],
  });
  let terminated = false;
  let wanted = true;
  /** koffi aborts the process if its thread is stopped while loading it, so wait for the end of loading. */
  let loading: Promise<void> | undefined;
  const refer = () => (wanted || loading !== undefined ? worker.ref() : worker.unref());
  const load = async () => {
    await new Promise<void>((resolve) => {
      worker.once("message", () => resolve());
      worker.once("exit", () => resolve());
    });
    loading = undefined;
    refer();
  };
  worker.on("message", (text: string) => listeners.message(text));
  worker.on("error", (error: unknown) => listeners.ended(String(error)));
  worker.on("exit", (code) => {
    if (!terminated) listeners.ended(`it exited with code ${code}`);
  });
  return {
    start(start) {
      worker.postMessage(start);
      if (start.kernels.blas !== undefined) loading = load();
      refer();
    },
    hold(alive) {
      wanted = alive;
      refer();
    },
    terminate: async () => {
      terminated = true;
      await loading;
      await worker.terminate();
    },
    async kill() {
      await loading;
      await worker.terminate();
    },
  };
}
