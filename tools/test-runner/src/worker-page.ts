// Runs in the page of an entry in a worker: starts the worker, passes on its messages, and ends it.
import { WORKER_ROOT } from "./entry.js";
import { runnerOfPage, WORKER_LOCK, type WorkerMessage } from "./page-messages.js";

const send = runnerOfPage();
const broken = (message: string) => send({ type: "broken", message });

const parameters = new URL(location.href).searchParams;
parameters.set("entry", WORKER_ROOT + parameters.get("entry"));
const worker = new Worker(`${WORKER_ROOT}${new URL("./worker.js", import.meta.url).pathname}?${parameters}`, {
  type: "module",
});

let isDone = false;
worker.onmessage = ({ data }: MessageEvent<WorkerMessage>) => {
  if (data.type === "started") {
    void navigator.locks.request(WORKER_LOCK, () => {
      // A worker that cannot be ended holds the lock, and the entry runs into its time limit.
      if (isDone) send({ type: "end" });
      else broken("the worker ended before its last test");
    });
  } else if (data.type === "end") {
    isDone = true;
    worker.terminate();
  } else {
    send(data);
  }
};
worker.onmessageerror = () => broken("a message of the worker could not be read");
worker.onerror = (event) => {
  event.preventDefault();
  const { message, filename, lineno } = event;
  broken(message ? `${message} (${filename}:${lineno})` : "the script of the worker could not be loaded");
};
