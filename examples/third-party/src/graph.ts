/**
 * The device: a graph of versions. An allocation is a line of versions, each of which determines all of its
 * bytes and never changes. A call adds a version that can be computed from earlier ones. Nothing is computed
 * before a caller needs the bytes, and versions that nobody needs never are.
 *
 * There is no queue, and no need of one: a read holds the version that was the newest at the time of the
 * call, so that no later call can show in it.
 */
export type Bytes = Uint8Array<ArrayBuffer>;

/** How a version comes out of others. */
export interface Step {
  /** The version before; absent for a fresh allocation, which is zeros. */
  readonly previous: Version | undefined;
  readonly inputs: readonly Version[];
  /** Bytes that the step itself keeps until it is taken: those that a caller wrote. */
  readonly keptBytes: number;
  /** Changes `bytes`, which hold the version before. None of the inputs is the same array. */
  readonly apply: (bytes: Bytes, inputs: readonly Bytes[]) => void;
}

/** The content of one allocation between two calls. */
export interface Version {
  readonly length: number;
  /** Who still wants it: its live handle, reads under way, steps that start from it. */
  holders: number;
  /** One of the three: the way to compute it, the result, or the reason why there is none. */
  state: { readonly step: Step } | { readonly bytes: Bytes } | { readonly fault: unknown } | undefined;
}

/** Makes versions, computes the ones that are needed, and counts their memory. */
export class Graph {
  /** Bytes of the versions that have been computed and are still wanted. */
  heldBytes = 0;
  /** Bytes that steps keep until they are taken. */
  keptBytes = 0;
  /** Steps recorded that have neither been taken nor dropped. */
  pendingSteps = 0;

  /** A new version, with one holder. */
  add(step: Step, length: number): Version {
    for (const source of sourcesOf(step)) source.holders++;
    this.pendingSteps++;
    this.keptBytes += step.keptBytes;
    return { length, holders: 1, state: { step } };
  }

  hold(version: Version): Version {
    version.holders++;
    return version;
  }

  /** Removes one holder. A version without holders is dropped, and so is everything that only it needed. */
  release(version: Version): void {
    const stack = [version];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      if (--next.holders > 0) continue;
      const { state } = next;
      next.state = undefined;
      if (state === undefined || "fault" in state) continue;
      if ("bytes" in state) this.heldBytes -= next.length;
      else stack.push(...this.#close(state.step));
    }
  }

  /** Returns the bytes of a version that has a holder. Computes the versions that lead to it; throws their errors. */
  bytesOf(version: Version): Bytes {
    // A stack of its own, because lines of versions may be longer than the stack of calls.
    const stack = [version];
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const step = stepOf(top);
      const missing =
        step === undefined ? [] : sourcesOf(step).filter((source) => stepOf(source) !== undefined);
      if (missing.length > 0) stack.push(...missing);
      else {
        stack.pop();
        if (step !== undefined) this.#take(top, step);
      }
    }
    return computed(version);
  }

  #take(version: Version, step: Step): void {
    const { previous, inputs, apply } = step;
    try {
      const sources = inputs.map(computed);
      const bytes = this.#startFrom(previous, version.length);
      version.state = { bytes };
      apply(bytes, sources);
    } catch (fault) {
      if (version.state !== undefined && "bytes" in version.state) this.heldBytes -= version.length;
      version.state = { fault };
    }
    for (const source of this.#close(step)) this.release(source);
  }

  /** Returns the bytes before a step, for it to change: those of the version before if nobody else needs them. */
  #startFrom(previous: Version | undefined, length: number): Bytes {
    if (previous?.holders === 1) {
      const bytes = computed(previous);
      previous.state = undefined;
      return bytes;
    }
    const bytes = previous === undefined ? new Uint8Array(length) : computed(previous).slice();
    this.heldBytes += length;
    return bytes;
  }

  /** Ends a step, taken or not. Returns the versions that it held. */
  #close(step: Step): readonly Version[] {
    this.pendingSteps--;
    this.keptBytes -= step.keptBytes;
    return sourcesOf(step);
  }
}

function stepOf({ state }: Version): Step | undefined {
  return state !== undefined && "step" in state ? state.step : undefined;
}

function computed({ state }: Version): Bytes {
  if (state !== undefined && "bytes" in state) return state.bytes;
  throw state !== undefined && "fault" in state
    ? state.fault
    : new Error("a version was used without a holder");
}

function sourcesOf({ previous, inputs }: Step): readonly Version[] {
  return previous === undefined ? inputs : [previous, ...inputs];
}
