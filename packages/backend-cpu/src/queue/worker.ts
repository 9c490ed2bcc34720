// The script of a worker, in Node and in pages. It waits for one message, then works until closed.
// Neither it nor what it imports may import anything by package name: import maps of pages do not
// apply in workers.

import { instantiateKernels } from "../kernels/instance.js";
import { nodeProcess } from "../node-process.js";
import { work } from "./protocol.js";
import type { WorkerStart } from "./workers.js";

interface Port {
  postMessage(message: string): void;
}

function begin(start: WorkerStart, port: Port): void {
  const functions = instantiateKernels(start.module, start.names, start.memory);
  const control = new Int32Array(start.memory.buffer);
  port.postMessage("ready");
  const { scratch, worker } = start;
  work(
    control,
    (kernel, block, chunk) => functions[kernel]!(block, chunk, scratch, worker),
    () => port.postMessage("progress"),
  );
}

const nodePort = nodeProcess?.getBuiltinModule("node:worker_threads").parentPort;
if (nodePort) {
  nodePort.once("message", (start: WorkerStart) => begin(start, nodePort));
} else {
  globalThis.onmessage = ({ data }: MessageEvent<WorkerStart>) => begin(data, globalThis as unknown as Port);
}
