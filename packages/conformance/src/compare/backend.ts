import {
  type AllocOptions,
  type BackendError,
  type ComputeBackend,
  checkTwoBackends,
  type DeviceHandle,
  type DType,
  Faults,
  ForwardingBackend,
  type HostBytes,
  Listeners,
  type Numerics,
  type Operand,
  type Operation,
  type OperationName,
  operations,
  weakerOf,
} from "@backplane/core";
import type { ReferenceMemory } from "../elements.js";
import { after, madeElsewhere } from "./elsewhere.js";
import type { Finding } from "./finding.js";
import { type Contents, judge } from "./judge.js";
import { type CompareOptions, completed } from "./options.js";
import { type Fetched, fetchAll, type Patch, patchesFor } from "./patches.js";
import { replayOf } from "./replay.js";
import { CompareCounts, type CompareReport, type Divergence, messageOf } from "./report.js";
import {
  owned,
  type Watched,
  watchedAlloc,
  watchedCopy,
  watchedFill,
  watchedOperation,
  watchedUpload,
} from "./watched.js";

/** A comparison under way. */
interface Job {
  readonly index: number;
  readonly watched: Watched;
  readonly patches: readonly Patch[];
  readonly before: Fetched;
  readonly changed: Fetched;
  readonly bytes: number;
  /** Those of the call: the backend may be another one when the results are judged. */
  readonly numerics: Numerics;
}

/** What is known of a call that is about to be made. */
type Plan =
  | (Pick<Job, "watched" | "patches" | "bytes" | "numerics"> & { readonly isCompared: true })
  | { readonly isCompared: false; readonly name: string; readonly reason: string | undefined };

/**
 * Runs two backends on the same calls and reports the first call after which a result is wrong:
 *
 *   const backend = new CompareBackend(createWebGpuBackend(), createCpuBackend());
 *   backend.onDivergence(({ message }) => console.error(message));
 *
 * The program runs on the first backend: handles, results, state and capabilities are the first's. Before each call that
 * writes (operations, copies, fills, uploads and allocations), the bytes of its operands are read from the first
 * backend; the second gets them, makes the call, and keeps nothing. So each call on the second starts from what the first had,
 * differences do not accumulate, and each stands for one call alone. The results of both must lie within the
 * suite's bounds around the formula in double precision, under the weaker of the numerics that the two declare. A difference
 * between the two that is larger than the bounds allow therefore shows on one of them, and the report says on which. Bytes next
 * to the results must stay as they were.
 *
 * Not compared, and counted in `report().skipped`: calls that are too large, and operations without a formula. Elements that may
 * be anything by what the two declare are left out: those that come from NaN or infinities which are not kept, or from
 * steps that may overflow; inputs that may be flushed to zero widen the bound. If the second backend does not
 * support a call, the first is compared with the formula alone.
 *
 * This is exact about the place, and slow: each call moves its operands to the host and back, and is computed three times.
 * `every: 7` compares one of seven calls and costs a seventh; use a number that shares no factor with the length of the
 * program's loop, so that each call has its turn. Comparing only at `synchronize`, after many calls, is not
 * offered: bounds hold for one call, and none is known for what a chain of them leaves.
 *
 * Calls return as soon as the first backend's do. If both read synchronously, a call is compared before it returns, and listeners
 * see it on the stack. Otherwise comparisons follow in order; `synchronize` waits for them. Recordings are
 * repeated call by call, so that each call of theirs is compared.
 *
 * Both backends belong to this one: `init` opens both, `dispose` closes both. Losing the second ends its part only.
 */
export class CompareBackend extends ForwardingBackend {
  readonly #second: ComputeBackend;
  readonly #options: Required<CompareOptions>;
  readonly #listeners = new Listeners<Divergence>("onDivergence");
  readonly #counts = new CompareCounts();
  readonly #faults = new Faults();
  readonly #sizes = new Map<DeviceHandle, number>();
  /** Reads of the first backend that callers did not ask for. */
  readonly #reads = new Set<Promise<void>>();
  /** Settles when the comparisons so far are made. Undefined: they are. Never rejects. */
  #lane: Promise<void> | undefined;
  #waitingBytes = 0;
  #opening: Promise<void> | undefined;

  constructor(first: ComputeBackend, second: ComputeBackend, options: CompareOptions = {}) {
    super(first);
    checkTwoBackends("CompareBackend", first, second);
    this.#second = second;
    this.#options = completed(options);
    const { warn } = this.#options;
    const stop = this.#listeners.add((divergence) => {
      stop();
      warn(divergence.message, divergence);
    });
    first.onLost(() => {
      this.#opening = undefined;
      this.#faults.forget();
    });
  }

  override get name(): string {
    return "compare";
  }

  /** Comparisons so far. Those of calls that were made lately may be missing before `synchronize` has resolved. */
  report(): CompareReport {
    return this.#counts.report();
  }

  /** Calls the listener at each call with a result outside of its bound. Returns a function that removes it. */
  onDivergence(listener: (divergence: Divergence) => void): () => void {
    return this.#listeners.add(listener);
  }

  // Lifecycle

  override init(): Promise<void> {
    if (this.state === "disposed") return this.inner.init();
    if (this.#opening === undefined) {
      const opening: Promise<void> = this.#open().catch((error: unknown) => {
        if (this.#opening === opening) this.#opening = undefined;
        throw error;
      });
      this.#opening = opening;
    }
    return this.#opening;
  }

  /** The second one first, so that the state, which is the first's, changes when both are open. */
  async #open(): Promise<void> {
    await this.#second.init();
    await this.inner.init();
    // Those of a lost device have ended. A backend that is swapped keeps them.
    if (this.inner.memory().liveAllocations === 0) this.#sizes.clear();
  }

  override async synchronize(): Promise<void> {
    await this.inner.synchronize();
    await this.#lane;
    // It may have been lost or closed meanwhile.
    if (this.state !== "open") await this.inner.synchronize();
    this.#faults.throwKept();
  }

  override async dispose(): Promise<void> {
    this.#sizes.clear();
    const results = await Promise.allSettled([this.inner.dispose(), this.#second.dispose()]);
    await this.#lane;
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }

  // Reads

  override async copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    const earlier = [...this.#reads];
    await this.inner.copyDtoH(destination, source);
    // They may have taken a fault that is for this promise.
    await Promise.allSettled(earlier);
    this.#faults.throwKept();
  }

  override copyDtoHSync(destination: HostBytes, source: Operand): void {
    this.inner.copyDtoHSync(destination, source);
    this.#faults.throwKept();
  }

  // Calls that write

  override alloc(bytes: number, options?: AllocOptions): DeviceHandle {
    const handle = this.inner.alloc(bytes, options);
    this.#sizes.set(handle, bytes);
    if (options?.zero !== false) this.#watch(() => watchedAlloc(handle, bytes), undefined);
    return handle;
  }

  override free(handle: DeviceHandle): void {
    this.inner.free(handle);
    this.#sizes.delete(handle);
  }

  override copyHtoD(destination: Operand, source: HostBytes): void {
    this.#watch(
      () => watchedUpload(destination, source),
      () => this.inner.copyHtoD(destination, source),
    );
  }

  override copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    this.#watch(
      () => watchedCopy(destination, source, bytes),
      () => this.inner.copyDtoD(destination, source, bytes),
    );
  }

  override fill(destination: Operand, value: number, count: number, dtype: DType = "f32"): void {
    this.#watch(
      () => watchedFill(destination, value, count, dtype),
      () => this.inner.fill(destination, value, count, dtype),
    );
  }

  override run(given: OperationName | Operation, args: object): void {
    this.#watch(
      () => {
        const operation = typeof given === "string" ? (operations[given] as Operation | undefined) : given;
        return operation && watchedOperation(operation, args);
      },
      () => super.run(given, args),
    );
  }

  // Comparisons

  /** Makes a call on the first backend, and compares it. Undefined: the call was made. */
  #watch(describe: () => Watched | undefined, make: (() => void) | undefined): void {
    const plan = this.state === "open" ? this.#plan(describe) : undefined;
    if (!plan?.isCompared) {
      make?.();
      // One that threw is no call.
      if (plan === undefined) return;
      this.#counts.calls++;
      if (plan.reason !== undefined) this.#counts.skip(plan.name, plan.reason);
      return;
    }
    const { patches } = plan;
    const before =
      make === undefined
        ? { bytes: patches.map(({ length }) => new Uint8Array(length)), wait: undefined }
        : this.#fetch(patches);
    make?.();
    const changed = this.#fetch(patches.filter(({ isWritten }) => isWritten));
    const index = this.#counts.calls++;
    if (before === undefined || changed === undefined) this.#counts.skip(plan.watched.name, unread);
    else this.#enter({ ...plan, index, before, changed });
  }

  /** Undefined: the call writes nothing, or will throw. */
  #plan(describe: () => Watched | undefined): Plan | undefined {
    try {
      const watched = describe();
      if (watched === undefined || watched.uses.every(({ length }) => length === 0)) return undefined;
      const without = { isCompared: false, name: watched.name } as const;
      if (this.#counts.calls % this.#options.every !== 0) return { ...without, reason: undefined };
      const patches = patchesFor(watched.uses, (handle) => this.#sizes.get(handle));
      if (patches === undefined) return undefined;
      const bytes = patches.reduce((sum, { length }) => sum + length, 0);
      const reason = this.#tooLarge(bytes, watched.flops);
      if (reason !== undefined) return { ...without, reason };
      const { numerics } = weakerOf(this.inner.capabilities, this.#second.capabilities);
      return { isCompared: true, watched: owned(watched), patches, bytes, numerics };
    } catch {
      // The call itself throws, with the message of the backend.
      return undefined;
    }
  }

  #tooLarge(bytes: number, flops: number): string | undefined {
    const { mostBytes, mostFlops, mostWaitingBytes } = this.#options;
    if (bytes > mostBytes) return `it uses more than ${mostBytes} bytes (mostBytes)`;
    if (flops > mostFlops) return `it takes more than ${mostFlops} operations (mostFlops)`;
    if (this.#waitingBytes + bytes > mostWaitingBytes)
      return `more than ${mostWaitingBytes} bytes wait to be compared (mostWaitingBytes)`;
    return undefined;
  }

  #fetch(patches: readonly Patch[]): Fetched | undefined {
    try {
      const fetched = fetchAll(this.inner, patches, (error) => this.#keep(error));
      if (fetched.wait !== undefined) {
        const read = fetched.wait.catch((error: unknown) => this.#keep(error));
        this.#reads.add(read);
        void read.then(() => this.#reads.delete(read));
      }
      return fetched;
    } catch (error) {
      this.#keep(error);
      return undefined;
    }
  }

  /** Keeps a fault of the first backend for the next promise of the caller. Other errors are those of the call itself. */
  #keep(error: unknown): void {
    const { code } = error as Partial<BackendError>;
    if (code === "DEVICE_ERROR" || code === "OUT_OF_MEMORY") this.#faults.keep(error, "CompareBackend");
  }

  /** Compares now if nothing must be waited for, or else in turn. */
  #enter(job: Job): void {
    const waits = [this.#lane, job.before.wait, job.changed.wait].filter((wait) => wait !== undefined);
    const next =
      waits.length === 0
        ? this.#compare(job)
        : Promise.all(waits).then(
            () => this.#compare(job),
            () => this.#counts.skip(job.watched.name, unread),
          );
    if (next === undefined) return;
    this.#waitingBytes += job.bytes;
    const lane: Promise<void> = next.finally(() => {
      this.#waitingBytes -= job.bytes;
      if (this.#lane === lane) this.#lane = undefined;
    });
    this.#lane = lane;
  }

  /** Returns a promise if the second backend must be waited for. */
  #compare(job: Job): Promise<void> | undefined {
    const { watched, patches } = job;
    const before = job.before.bytes;
    const second = this.#onSecond(watched, patches, before);
    const first = after(patches, before, job.changed.bytes);
    const conclude = (made: Fetched | undefined): void =>
      this.#judge(job, { before, first, second: made && after(patches, before, made.bytes) });
    if (second?.wait === undefined) {
      conclude(second);
      return undefined;
    }
    return second.wait.then(
      () => conclude(second),
      (error: unknown) => {
        this.#noteFailure(watched, error);
        conclude(undefined);
      },
    );
  }

  #onSecond(
    watched: Watched,
    patches: readonly Patch[],
    before: readonly ReferenceMemory[],
  ): Fetched | undefined {
    if (this.#second.state !== "open") return undefined;
    try {
      return madeElsewhere(this.#second, watched, patches, before);
    } catch (error) {
      this.#noteFailure(watched, error);
      return undefined;
    }
  }

  /** The second backend may lack a call or the memory for it, or be gone. Anything else is a fault of it. */
  #noteFailure({ name }: Watched, error: unknown): void {
    const { code = "an error without a code" } = error as Partial<BackendError>;
    if (!expected.includes(code)) this.#counts.skip(name, `the second backend threw ${code}`);
  }

  #judge(job: Job, contents: Contents): void {
    const { watched } = job;
    let divergence: Divergence | undefined;
    try {
      const { finding, reason } = judge(watched, job.patches, contents, job.numerics);
      if (reason !== undefined) {
        this.#counts.skip(watched.name, reason);
        return;
      }
      divergence = finding && this.#divergence(job, finding, contents);
    } catch (error) {
      // The program goes on, whatever its wrapper cannot do.
      this.#counts.skip(watched.name, `the comparison failed: ${(error as Error).message}`);
      return;
    }
    this.#counts.compared++;
    if (divergence === undefined) return;
    this.#counts.divergences++;
    this.#counts.first ??= divergence;
    this.#listeners.emit(divergence);
  }

  #divergence({ index, watched, patches }: Job, finding: Finding, { before }: Contents): Divergence {
    const { name: operation, args } = watched;
    const found = {
      ...finding,
      call: index,
      operation,
      args,
      replay: replayOf(watched, patches, before),
    };
    return { ...found, message: messageOf(found, [this.inner.name, this.#second.name]) };
  }
}

const unread = "its operands could not be read";

/** Codes of errors that do not mean that the second backend is wrong. */
const expected: readonly string[] = ["UNSUPPORTED", "OUT_OF_MEMORY", "DEVICE_LOST", "DISPOSED"];
