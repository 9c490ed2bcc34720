// The script of a worker, in Node and in pages. It waits for one message, then works until closed.
// Neither it nor what it imports may import anything by package name: import maps of pages do not
// apply in workers.

import { KernelInstances } from "../kernels/instance.js";
import type { NativeKernels } from "../native/functions.js";
import { nodeProcess } from "../node-process.js";
import { reachInto, work } from "./protocol.js";
import type { WorkerStart } from "./workers.js";

interface Port {
  postMessage(message: string): void;
}

function begin(start: WorkerStart, port: Port, native: NativeKernels): void {
  const kernels = new KernelInstances(start.kernels, start.memory, native);
  const control = new Int32Array(start.memory.buffer);
  port.postMessage("ready");
  const { scratch, worker } = start;
  work(
    control,
    (kernel, block, chunk) => kernels.get(kernel)(block, chunk, scratch, worker),
    () => port.postMessage("progress"),
    reachInto(start.memory),
  );
}

function receive(start: WorkerStart, port: Port): void {
  // Begin at once, so that a failure is an error of the script: pages would not notice a rejection.
  if (start.kernels.blas === undefined) begin(start, port, {});
  else void beginWithLibrary(start, port);
}

/** In Node only. Its files are loaded only here, because each costs time when a worker starts. */
async function beginWithLibrary(start: WorkerStart, port: Port): Promise<void> {
  const { nativeKernels } = await import("../native/sgemm.js");
  begin(start, port, nativeKernels(start.kernels.blas, start.memory));
}

const nodePort = nodeProcess?.getBuiltinModule("node:worker_threads").parentPort;
if (nodePort) {
  nodePort.once("message", (start: WorkerStart) => receive(start, nodePort));
} else {
  globalThis.onmessage = ({ data }: MessageEvent<WorkerStart>) =>
    receive(data, globalThis as unknown as Port);
}
