import { parentPort, workerData } from "node:worker_threads";
import { ceilingRun } from "./ceiling.js";

const run = ceilingRun(workerData as Uint8Array<ArrayBuffer>);

parentPort!.on("message", (passes: number) => {
  parentPort!.postMessage(run(passes));
});
