import type { Bytes } from "./format.js";

/**
 * Takes the bytes of a trace, piece by piece and in order. A promise that it returns, or another thenable, is waited for
 * before it gets the next piece; what else it returns does not matter.
 */
export type TraceSink = (chunk: Bytes) => unknown;

/** Gives a sink its chunks one at a time: at once if it can, and else when it has taken those before. */
export class ChunkQueue {
  readonly #sink: TraceSink;
  /** Is called once, when the sink fails. It gets no more chunks then. */
  readonly #failed: (error: unknown) => void;
  #waiting: Bytes[] = [];
  /** Resolves when the queue is empty. Undefined if it is. */
  #emptying: Promise<void> | undefined;
  #hasFailed = false;

  constructor(sink: TraceSink, failed: (error: unknown) => void) {
    this.#sink = sink;
    this.#failed = failed;
  }

  give(chunk: Bytes): void {
    if (this.#hasFailed) return;
    if (this.#emptying !== undefined) {
      this.#waiting.push(chunk);
      return;
    }
    try {
      const taken = this.#sink(chunk);
      if (isThenable(taken)) this.#emptying = this.#giveRest(taken);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Resolves when the sink has taken all chunks, or has failed. */
  async emptied(): Promise<void> {
    await this.#emptying;
  }

  async #giveRest(taken: PromiseLike<unknown>): Promise<void> {
    try {
      await taken;
      // Chunks may be added while it waits.
      for (let chunk = this.#waiting.shift(); chunk !== undefined; chunk = this.#waiting.shift())
        await this.#sink(chunk);
    } catch (error) {
      this.#fail(error);
    }
    this.#emptying = undefined;
  }

  #fail(error: unknown): void {
    this.#hasFailed = true;
    this.#waiting = [];
    this.#failed(error);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === "function";
}
