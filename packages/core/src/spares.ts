import { isUnzeroed } from "./arguments.js";
import type { AllocOptions, ComputeBackend } from "./backend.js";
import { reusesPlainly } from "./create.js";
import type { Entry } from "./entries.js";
import type { DeviceHandle } from "./handles.js";

/** How many there may be, and the most bytes of each. */
const mostSpares = 4;
const mostBytes = 2 ** 16;

/**
 * Small allocations of the backend in use whose handles have ended, for the next ones of as many bytes: programs repeat themselves,
 * and to free memory on a backend and allocate it again takes a tenth of a small call.
 */
export class Spares {
  /** The first `#count` are spare. The list is never cut: that takes longer than the rest. */
  readonly #entries: Entry[] = [];
  #count = 0;

  get bytes(): number {
    let bytes = 0;
    for (let i = 0; i < this.#count; i++) bytes += this.#entries[i]!.bytes;
    return bytes;
  }

  /** Keeps an entry of a backend whose handle has ended, and which nobody else will free. Returns false if it does not. */
  keep(backend: ComputeBackend, entry: Entry): boolean {
    const { bytes, inner, lost } = entry;
    if (this.#count === mostSpares || bytes > mostBytes || bytes === 0 || inner === undefined || lost)
      return false;
    if (!reusesPlainly(backend)) return false;
    this.#entries[this.#count++] = entry;
    return true;
  }

  /** Returns one of this size, if its contents do not matter. */
  take(backend: ComputeBackend, bytes: number, options: AllocOptions): Entry | undefined {
    for (let i = this.#count - 1; i >= 0; i--) {
      const entry = this.#entries[i]!;
      if (entry.bytes !== bytes) continue;
      if (!isUnzeroed(options) || !reusesPlainly(backend)) return undefined;
      this.#entries[i] = this.#entries[--this.#count]!;
      return entry;
    }
    return undefined;
  }

  /** `alloc` of the backend, at the cost of the spares if there is no room. */
  allocate(backend: ComputeBackend, bytes: number, options: AllocOptions): DeviceHandle {
    try {
      return backend.alloc(bytes, options);
    } catch (error) {
      if (!this.release(backend)) throw error;
      return backend.alloc(bytes, options);
    }
  }

  /** Frees all on their backend. Returns whether there were any. */
  release(backend: ComputeBackend): boolean {
    const released = this.#entries.slice(0, this.#count);
    this.clear();
    for (const { inner } of released) backend.free(inner!);
    return released.length > 0;
  }

  /** Forgets all: their backend is gone. */
  clear(): void {
    this.#entries.length = 0;
    this.#count = 0;
  }
}
