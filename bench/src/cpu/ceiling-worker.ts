import { parentPort, workerData } from "node:worker_threads";

const { exports } = new WebAssembly.Instance(new WebAssembly.Module(workerData as Uint8Array<ArrayBuffer>));
const run = exports.run as (passes: number) => number;

parentPort!.on("message", (passes: number) => {
  const start = performance.now();
  if (!Number.isFinite(run(passes))) throw new Error("ceiling: the sums have overflowed");
  parentPort!.postMessage((performance.now() - start) / 1000);
});
