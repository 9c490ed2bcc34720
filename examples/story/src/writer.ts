import { type ComputeBackend, type DeviceHandle, openScope, type Scope } from "@backplane/core";
import { moved } from "./matrix.js";
import type { Transformer } from "./model.js";
import type { Sampler } from "./sampler.js";

/** What may be told about the writing. */
export interface Watch {
  /** The host did nothing but wait for a token, between these times of `performance.now()`. */
  waited(begin: number, end: number): void;
}

/**
 * Tokens that the device works on while the host still waits for the first of them: as many as take this long, so that
 * neither waits for the other while the system has one of them wait for a processor. More than the least are computed
 * in vain at the end of a text, so slow models have no more. A model of 260,000 parameters takes 0.91 times the processor's
 * time with eight instead of four, as workers sleep less often.
 */
const IN_FLIGHT = { milliseconds: 2, least: 4, most: 16 } as const;

const TOKEN_BYTES = 4;

/** @param milliseconds from one token to the next */
function inFlight(milliseconds: number): number {
  const { least, most } = IN_FLIGHT;
  return Math.min(Math.max(least, Math.ceil(IN_FLIGHT.milliseconds / milliseconds)), most);
}

/** Writes on after a prompt, token by token. Each token is chosen on the device and is the input of the next pass. */
export class Writer {
  readonly #backend: ComputeBackend;
  readonly #transformer: Transformer;
  readonly #sampler: Sampler;
  readonly #scope: Scope;
  readonly #watch: Watch | undefined;
  /** i32: the prompt, and behind it what was chosen. */
  readonly #tokens: DeviceHandle;

  constructor(backend: ComputeBackend, transformer: Transformer, sampler: Sampler, watch?: Watch) {
    this.#watch = watch;
    this.#backend = backend;
    this.#transformer = transformer;
    this.#sampler = sampler;
    this.#scope = openScope(backend);
    this.#tokens = this.#scope.alloc(TOKEN_BYTES * (transformer.room + 1));
  }

  /**
   * Yields the tokens after the prompt: at most `limit` and as many as the cache has room for, and none from the first
   * one of `stops` on. The caller may swap the backend before it asks for the next one.
   */
  async *write(
    prompt: readonly number[],
    limit: number,
    stops: ReadonlySet<number>,
  ): AsyncGenerator<number, void, undefined> {
    const first = prompt.length;
    const end = Math.min(first + limit, this.#transformer.room + 1);
    this.#backend.copyHtoD(this.#tokens, Int32Array.from(prompt));
    const pending: Promise<number>[] = [];
    let wanted: number = IN_FLIGHT.least;
    let [firstTime, written] = [0, 0];
    try {
      for (let place = first; place < end || pending.length > 0; ) {
        for (; place < end && pending.length < wanted; place++) pending.push(this.#choose(place, first));
        const begin = performance.now();
        const token = await pending.shift()!;
        const now = performance.now();
        this.#watch?.waited(begin, now);
        if (written === 0) firstTime = now;
        else wanted = inFlight((now - firstTime) / written);
        written += 1;
        if (stops.has(token)) return;
        yield token;
      }
    } finally {
      // Tokens that nobody will ask for.
      await Promise.allSettled(pending);
    }
  }

  free(): void {
    this.#scope.dispose();
  }

  /** Enqueues the pass before a place and the choice for it. */
  #choose(place: number, promptLength: number): Promise<number> {
    const start = place === promptLength ? 0 : place - 1;
    this.#transformer.forward(moved(this.#tokens, TOKEN_BYTES * start), place - start, start);
    const chosen = moved(this.#tokens, TOKEN_BYTES * place);
    this.#sampler.sample(this.#transformer.logits, chosen);
    const token = this.#read(chosen);
    // A failure reaches whoever asks for the token; until then it is no unhandled one.
    token.catch(() => {});
    return token;
  }

  async #read(place: ReturnType<typeof moved>): Promise<number> {
    const token = new Int32Array(1);
    await this.#backend.copyDtoH(token, place);
    return token[0]!;
  }
}
