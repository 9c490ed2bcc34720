// Runs in the worker of an entry, which worker-page.ts starts and listens to.
import { runEntry } from "./entry-run.js";
import { WORKER_LOCK, type WorkerMessage } from "./page-messages.js";

const tell = (message: WorkerMessage) => postMessage(message);

void navigator.locks.request(WORKER_LOCK, () => {
  tell({ type: "started" });
  void runEntry(tell);
  return new Promise(() => {});
});
