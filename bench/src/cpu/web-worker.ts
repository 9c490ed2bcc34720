import { Worker } from "node:worker_threads";

/** The environment of a page's worker: its scope, and messages as events. */
const scope = `
const { parentPort } = require("node:worker_threads");
globalThis.self = globalThis;
globalThis.postMessage = (message) => parentPort.postMessage(message);
parentPort.on("message", (data) => globalThis.onmessage?.({ data }));
`;

/**
 * The part of the Worker of pages that libraries need if they start one from a script in a Blob and exchange
 * messages with it; such libraries would have only one thread in Node.js otherwise.
 */
export class WebWorker {
  onmessage: ((event: { readonly data: unknown }) => void) | undefined;
  onerror: ((event: { readonly message: string }) => void) | undefined;
  readonly #waiting: unknown[] = [];
  #worker: Worker | undefined;

  constructor(address: string) {
    void this.#start(address);
  }

  postMessage(message: unknown): void {
    if (this.#worker === undefined) this.#waiting.push(message);
    else this.#worker.postMessage(message);
  }

  async terminate(): Promise<void> {
    await this.#worker?.terminate();
  }

  async #start(address: string): Promise<void> {
    try {
      const source = await (await fetch(address)).text();
      const worker = new Worker(`${scope}\n${source}`, { eval: true });
      worker.on("message", (data) => this.onmessage?.({ data }));
      worker.on("error", ({ message }) => this.onerror?.({ message }));
      for (const message of this.#waiting.splice(0)) worker.postMessage(message);
      this.#worker = worker;
    } catch (error) {
      this.onerror?.({ message: (error as Error).message });
    }
  }
}
