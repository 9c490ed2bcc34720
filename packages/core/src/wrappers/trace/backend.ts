import type { AllocOptions, ComputeBackend, HostBytes } from "../../backend.js";
import type { DType } from "../../dtype.js";
import { isOperand, mapOperands } from "../../entries.js";
import type { BackendError } from "../../errors.js";
import { type DeviceHandle, describe, type Operand } from "../../handles.js";
import { Checks } from "../../ops/checks.js";
import type { OperationName } from "../../ops/index.js";
import { operationOf } from "../../ops/lookup.js";
import type { Operation } from "../../ops/operation.js";
import type { Recording, RunChanges, Vary } from "../../recording/recording.js";
import { Faults } from "../faults.js";
import { ForwardingBackend } from "../forwarding.js";
import { ChunkQueue, type TraceSink } from "./chunk-queue.js";
import { digestOf } from "./digest.js";
import { TraceEncoder } from "./encoder.js";
import { type TracedCall, TracedOperand, type TraceRecord } from "./format.js";

/** Contents shorter than this are written each time. */
const leastShared = 32;

type Changes = Map<number, readonly TracedCall[]>;

/**
 * Writes all calls to a file, or any other sink, which `replayTrace` makes again on any backend: a bug in one file.
 *
 *   const file = openSync("run.trace", "w");
 *   const backend = new TraceBackend(createWebGpuBackend(), (chunk) => writeSync(file, chunk));
 *
 * The trace has allocations, uploads with their contents, copies, fills, operations with all arguments, recordings and
 * their runs, reads with the bytes that they found, and waits. Contents that are equal are written once. Calls that throw change
 * nothing and are not written. What cannot be written is noted with the reason: use of native objects, and of
 * handles that are not from `alloc` of this backend.
 *
 * The sink gets bytes whenever some 64 KiB have gathered, at `flush`, `synchronize` and each read, and the last at `dispose`. A
 * trace without that end can be replayed as far as it goes. If the sink fails, tracing ends, and the next promise rejects.
 *
 * A sink that returns a promise gets the next bytes when it has resolved, and bytes wait in memory until then. `synchronize`,
 * `copyDtoH` and `dispose` resolve when none wait any more: a program that awaits them now and then never goes far ahead of
 * a slow sink.
 *
 * Everything else is as on the backend underneath, which belongs to this one.
 */
export class TraceBackend extends ForwardingBackend {
  readonly #encoder = new TraceEncoder();
  readonly #chunks: ChunkQueue;
  readonly #faults = new Faults();
  readonly #allocations = new Map<DeviceHandle, number>();
  readonly #contents = new Map<string, number>();
  #allocationCount = 0;
  #contentCount = 0;
  #downloadCount = 0;
  #recordingCount = 0;
  /** Takes calls that are recorded instead of made. */
  #collect: ((call: TracedCall) => void) | undefined;
  #isEnded = false;
  #closing: Promise<void> | undefined;

  constructor(inner: ComputeBackend, sink: TraceSink) {
    super(inner);
    const checks = new Checks("TraceBackend");
    if (typeof (inner as Partial<ComputeBackend> | undefined)?.alloc !== "function")
      checks.fail("inner", `is ${describe(inner)}; allowed: a backend`);
    if (typeof sink !== "function") checks.fail("sink", `is ${describe(sink)}; allowed: a function`);
    this.#chunks = new ChunkQueue(sink, (error) => this.#sinkFailed(error));
  }

  override get name(): string {
    return "trace";
  }

  // Lifecycle

  override flush(): void {
    this.inner.flush();
    this.#note("flush", () => ["flush"]);
    this.#send();
  }

  override trim(): void {
    this.inner.trim();
    this.#note("trim", () => ["trim"]);
  }

  override async synchronize(): Promise<void> {
    await this.inner.synchronize();
    this.#note("synchronize", () => ["synchronize"]);
    await this.#sent();
  }

  override dispose(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    try {
      await this.inner.dispose();
    } finally {
      this.#note("dispose", () => ["end"]);
      this.#allocations.clear();
      this.#contents.clear();
      this.#send();
      this.#isEnded = true;
      await this.#chunks.emptied();
    }
    this.#faults.throwKept();
  }

  override native(handle?: DeviceHandle): unknown {
    const native = this.inner.native(handle);
    this.#write(["omitted", "native", "what is done with native objects is not seen"]);
    return native;
  }

  // Memory

  override alloc(bytes: number, options?: AllocOptions): DeviceHandle {
    const handle = this.inner.alloc(bytes, options);
    this.#allocations.set(handle, this.#allocationCount++);
    this.#write(["alloc", bytes, options?.zero ?? true]);
    return handle;
  }

  override free(handle: DeviceHandle): void {
    this.inner.free(handle);
    this.#note("free", () => ["free", this.#numberOf(handle)]);
    this.#allocations.delete(handle);
  }

  override copyHtoD(destination: Operand, source: HostBytes): void {
    this.inner.copyHtoD(destination, source);
    this.#note("copyHtoD", () => ["copyHtoD", this.#traced(destination), this.#content(bytesOf(source))]);
  }

  override async copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    const read = this.inner.copyDtoH(destination, source);
    const ended = this.#readBegins(destination, source, false);
    try {
      await read;
    } catch (error) {
      ended(error as BackendError);
      throw error;
    }
    ended(undefined);
    await this.#sent();
  }

  override copyDtoHSync(destination: HostBytes, source: Operand): void {
    this.inner.copyDtoHSync(destination, source);
    this.#readBegins(destination, source, true)(undefined);
    this.#send();
    this.#faults.throwKept();
  }

  /** Notes a read. Returns a function that notes its end. */
  #readBegins(
    destination: HostBytes,
    source: Operand,
    isSynchronous: boolean,
  ): (error: BackendError | undefined) => void {
    const bytes = lengthOf(destination);
    const isNoted =
      // Of other reads the promise rejects.
      isOperand(source) &&
      bytes !== undefined &&
      this.#note("copyDtoH", () => ["copyDtoH", this.#traced(source), bytes, isSynchronous]);
    if (!isNoted) return () => {};
    const download = this.#downloadCount++;
    return (error) => {
      if (error === undefined)
        this.#note("copyDtoH", () => ["read", download, this.#content(bytesOf(destination)), undefined]);
      else this.#note("copyDtoH", () => ["read", download, undefined, String(error.code)]);
    };
  }

  override copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    this.inner.copyDtoD(destination, source, bytes);
    if (bytes === 0) return;
    this.#call("copyDtoD", () => ["copyDtoD", this.#traced(destination), this.#traced(source), bytes]);
  }

  override fill(destination: Operand, value: number, count: number, dtype: DType = "f32"): void {
    this.inner.fill(destination, value, count, dtype);
    if (count === 0) return;
    this.#call("fill", () => ["fill", this.#traced(destination), value, count, dtype]);
  }

  // Operations

  override run(given: OperationName | Operation, args: object): void {
    super.run(given, args);
    const operation = operationOf("run", given);
    this.#call(operation.name, () => [
      "run",
      operation.name,
      mapOperands(operation, args, (_, operand) => this.#traced(operand) as Operand),
    ]);
  }

  /** Notes a call, which may be made or recorded. */
  #call(operation: string, call: () => TracedCall): void {
    const collect = this.#collect;
    if (collect === undefined) this.#note(operation, call);
    else this.#tried(operation, () => collect(call()));
  }

  override record<Values extends object>(
    body: (vary: Vary<Values>) => void,
    values?: Values,
  ): Recording<Values> {
    const parts: { readonly varies: boolean; calls: readonly TracedCall[] }[] = [];
    const changed: Changes = new Map();
    let isMade = false;
    let isDisposed = false;
    const collected = <Result>(make: () => Result, add: (call: TracedCall) => void): Result => {
      const outer = this.#collect;
      this.#collect = add;
      try {
        return make();
      } finally {
        this.#collect = outer;
      }
    };
    const varying = (part: (values: Values) => void, place: number) => (current: Values) => {
      const calls: TracedCall[] = [];
      try {
        // What it returns matters: it must not be a promise.
        return collected(
          () => part(current),
          (call) => calls.push(call),
        );
      } finally {
        if (isMade) changed.set(place, calls);
        else parts[place]!.calls = calls;
      }
    };
    const traced = (vary: Vary<Values>): void =>
      collected(
        () =>
          body((part) => {
            // What is no function is refused by the backend.
            if (typeof part !== "function") vary(part);
            vary(varying(part, parts.push({ varies: true, calls: [] }) - 1));
          }),
        (call) => parts.push({ varies: false, calls: [call] }),
      );
    const inner = this.inner.record(typeof body === "function" ? traced : body, values as Values);
    isMade = true;
    const number = this.#recordingCount++;
    this.#note("record", () => ["record", parts.map(({ varies, calls }) => [varies, calls] as const)]);
    return {
      run: (changes?: RunChanges<Values>): void => {
        inner.run(changes);
        this.#note("Recording.run", () => ["play", number, this.#pairs(changes?.operands), [...changed]]);
        changed.clear();
      },
      dispose: (): void => {
        inner.dispose();
        if (isDisposed) return;
        isDisposed = true;
        this.#note("Recording.dispose", () => ["forget", number]);
      },
      [Symbol.dispose](): void {
        this.dispose();
      },
    };
  }

  #pairs(operands: ReadonlyMap<DeviceHandle, Operand> = new Map()) {
    return Array.from(operands, ([from, to]) => [this.#traced(from), this.#traced(to)] as const);
  }

  // Writing

  #traced(operand: Operand): TracedOperand {
    if (typeof operand !== "object") return new TracedOperand(this.#numberOf(operand), undefined);
    const { handle, byteOffset } = operand;
    // Of a read, whose promise will reject.
    if (!Number.isSafeInteger(byteOffset) || byteOffset < 0) throw new TypeError("a byteOffset is none");
    return new TracedOperand(this.#numberOf(handle), byteOffset);
  }

  #numberOf(handle: DeviceHandle): number {
    const number = this.#allocations.get(handle);
    if (number === undefined) throw new TypeError("a handle is not from alloc() of the TraceBackend");
    return number;
  }

  /** Returns the number of contents that are written, now or before. */
  #content(bytes: Uint8Array<ArrayBufferLike>): number {
    const digest = bytes.length < leastShared ? undefined : digestOf(bytes);
    const known = digest === undefined ? undefined : this.#contents.get(digest);
    if (known !== undefined) return known;
    this.#write(["content", bytes as Uint8Array<ArrayBuffer>]);
    if (digest !== undefined) this.#contents.set(digest, this.#contentCount);
    return this.#contentCount++;
  }

  /** Writes a record, or why there is none. Returns whether it was written. */
  #note(operation: string, record: () => TraceRecord): boolean {
    return this.#tried(operation, () => this.#write(record()));
  }

  #tried(operation: string, note: () => void): boolean {
    if (this.#isEnded) return false;
    try {
      note();
      return true;
    } catch (error) {
      this.#write(["omitted", operation, (error as Error).message]);
      return false;
    }
  }

  #write(record: TraceRecord): void {
    if (this.#isEnded) return;
    this.#encoder.write(record);
    if (this.#encoder.isFull) this.#send();
  }

  #send(): void {
    if (this.#isEnded) return;
    const chunk = this.#encoder.take();
    if (chunk.length > 0) this.#chunks.give(chunk);
  }

  /** Tracing ends, and the next promise says so. */
  #sinkFailed(error: unknown): void {
    this.#isEnded = true;
    const reason = error instanceof Error ? error.message : String(error);
    this.#faults.keep(new Error(`the sink of the trace failed: ${reason}`, { cause: error }), "TraceBackend");
  }

  /** Sends what there is, and waits until the sink has taken it. */
  async #sent(): Promise<void> {
    this.#send();
    await this.#chunks.emptied();
    this.#faults.throwKept();
  }
}

function bytesOf(source: HostBytes): Uint8Array {
  const [buffer, start] = ArrayBuffer.isView(source) ? [source.buffer, source.byteOffset] : [source, 0];
  return new Uint8Array(buffer, start, source.byteLength);
}

/** Returns undefined if the array is none, or its buffer was transferred away. */
function lengthOf(destination: HostBytes): number | undefined {
  try {
    return bytesOf(destination).length;
  } catch {
    return undefined;
  }
}
