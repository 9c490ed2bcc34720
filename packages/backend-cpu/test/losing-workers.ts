import type { Worker } from "node:worker_threads";
import type { ComputeBackend } from "@backplane/core";

/** A backend on worker threads, which loses its device when one of these dies. */
export function withWorkers(create: () => ComputeBackend): {
  readonly create: () => ComputeBackend;
  readonly loseDevice: (backend: ComputeBackend) => Promise<void>;
} {
  const started = new WeakMap<ComputeBackend, Worker[]>();
  return {
    create() {
      const backend = create();
      const init = backend.init.bind(backend);
      backend.init = () => {
        const workers: Worker[] = [];
        const note = (worker: Worker): void => {
          workers.push(worker);
        };
        process.on("worker", note);
        const opened = init();
        const done = (): void => {
          process.off("worker", note);
          if (workers.length > 0) started.set(backend, workers);
        };
        opened.then(done, done);
        return opened;
      };
      return backend;
    },
    async loseDevice(backend) {
      const workers = started.get(backend);
      if (workers === undefined) throw new Error("no worker of this backend is known");
      await workers[0]!.terminate();
    },
  };
}
