import {
  type AllocOptions,
  BackendError,
  type BackendState,
  type Capabilities,
  type ComputeBackend,
  type DeviceHandle,
  type DType,
  dtypes,
  elementTypes,
  type FloatType,
  type HostBytes,
  type MemoryStatistics,
  newHandle,
  type Operand,
  type Operation,
  type OperationArguments,
  OperationMethods,
  type OperationName,
  type Question,
} from "@backplane/core";
import { type Allocation, Call } from "./checks.js";
import { type Bytes, Graph, type Version } from "./graph.js";
import { argumentNames } from "./names.js";
import { capabilities, isOffered, questionOf, type Wishes } from "./offers.js";
import { planAttention } from "./operations/attention.js";
import { planConv2d } from "./operations/conv2d.js";
import { planBinary, planUnary } from "./operations/elementwise.js";
import { planGemm } from "./operations/gemm.js";
import { planReduce } from "./operations/reduce.js";
import type { Plan, Planner } from "./plan.js";

const planners: { readonly [Name in OperationName]?: Planner<OperationArguments[Name]> } = {
  gemm: (call, args) => planGemm(call, args, { batch: 1 }),
  batchedGemm: (call, args) => planGemm(call, args, args),
  conv2d: planConv2d,
  attention: planAttention,
  reduce: planReduce,
  unary: planUnary,
  binary: planBinary,
};

/** With more undone steps than this, a call computes the needed versions before it returns. */
const mostPendingSteps = 1000;
const mostKeptBytes = 2 ** 26;

/** A backend written from the text of the contract alone. See graph.ts for how it works. */
export class LazyBackend extends OperationMethods implements ComputeBackend {
  readonly name: string = "lazy";
  readonly #graph = new Graph();
  readonly #live = new Map<unknown, Allocation>();
  readonly #errorListeners = new Set<(error: BackendError) => void>();
  #opening: Promise<void> | undefined;
  #wasOpened = false;
  #isDisposed = false;
  /** A fault that no promise has told of yet. */
  #fault: BackendError | undefined;
  #liveBytes = 0;
  #peakBytes = 0;

  get state(): BackendState {
    if (this.#isDisposed) return "disposed";
    return this.#wasOpened ? "open" : "new";
  }

  get capabilities(): Capabilities {
    if (!this.#wasOpened) this.#begin("capabilities");
    return capabilities;
  }

  init(): Promise<void> {
    if (this.#isDisposed) return Promise.reject(this.#refusal("init"));
    this.#opening ??= this.#open();
    return this.#opening;
  }

  async #open(): Promise<void> {
    // A device would be looked for here.
    await Promise.resolve();
    if (this.#isDisposed) throw this.#refusal("init");
    this.#wasOpened = true;
  }

  /** Here work is done as soon as it begins. */
  flush(): void {
    this.#begin("flush");
    this.#computeAll();
  }

  async synchronize(): Promise<void> {
    this.#begin("synchronize");
    await Promise.resolve();
    if (this.#isDisposed) throw this.#refusal("synchronize");
    this.#computeAll();
    this.#reportFault();
  }

  async dispose(): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    for (const { version } of this.#live.values()) this.#graph.release(version);
    this.#live.clear();
    this.#liveBytes = 0;
    // Reads under way notice at their turn, which came before this one.
    await Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  /** There is no device that could be lost. */
  onLost(): () => void {
    return () => {};
  }

  onError(listener: (error: BackendError) => void): () => void {
    // Wrapped, so that a listener that is added twice is called twice and removed once.
    const entry = (error: BackendError) => listener(error);
    this.#errorListeners.add(entry);
    return () => this.#errorListeners.delete(entry);
  }

  supports(given: OperationName | Operation, question: Question = {}): boolean {
    return isOffered((typeof given === "string" ? given : given.name) as OperationName, question);
  }

  memory(): MemoryStatistics {
    // A live allocation counts the memory that it will take when it is computed.
    let promised = 0;
    for (const { bytes, version } of this.#live.values()) if ("step" in version.state!) promised += bytes;
    return {
      liveAllocations: this.#live.size,
      liveBytes: this.#liveBytes,
      peakBytes: this.#peakBytes,
      reservedBytes: this.#isDisposed ? 0 : this.#graph.heldBytes + this.#graph.keptBytes + promised,
      ...{ pooledBytes: 0, poolHits: 0, poolMisses: 0 },
    };
  }

  /** Nothing is kept for reuse. */
  trim(): void {
    this.#begin("trim");
  }

  /** The bytes of an allocation as they are now; they stay so only until the next call. */
  native(handle?: DeviceHandle): unknown {
    const call = this.#begin("native");
    return handle === undefined ? undefined : this.#bytesOf(call.allocation("handle", handle).version);
  }

  alloc(bytes: number, options: AllocOptions = {}): DeviceHandle {
    const call = this.#begin("alloc");
    call.whole("bytes", bytes);
    call.names("options", options, ["zero"]);
    call.flag("zero", options.zero ?? true);
    if (bytes > capabilities.limits.maxAllocationBytes)
      throw call.error(
        "OUT_OF_MEMORY",
        "bytes",
        `is ${bytes}; allowed: at most ${capabilities.limits.maxAllocationBytes}`,
      );
    const step = { previous: undefined, inputs: [], keptBytes: 0, apply: () => {} };
    const handle = newHandle();
    this.#live.set(handle, { bytes, version: this.#graph.add(step, bytes) });
    this.#liveBytes += bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#liveBytes);
    return handle;
  }

  free(handle: DeviceHandle): void {
    const { bytes, version } = this.#begin("free").allocation("handle", handle);
    this.#live.delete(handle);
    this.#liveBytes -= bytes;
    this.#graph.release(version);
  }

  copyHtoD(destination: Operand, source: HostBytes): void {
    const call = this.#begin("copyHtoD");
    const host = call.host("source", source);
    const output = call.place("destination", destination, host.length, 1);
    const kept = Uint8Array.from(host);
    this.#record({ output, inputs: [], compute: (bytes) => bytes.set(kept, output.byteOffset) }, kept.length);
  }

  async copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    const call = this.#begin("copyDtoH");
    const { byteLength } = call.host("destination", destination);
    const { allocation, byteOffset } = call.place("source", source, byteLength, 1);
    const version = this.#graph.hold(allocation.version);
    try {
      // Later calls come before the bytes are read.
      await Promise.resolve();
      if (this.#isDisposed) throw this.#refusal("copyDtoH");
      const bytes = this.#bytesOf(version);
      this.#reportFault();
      const target = call.host("destination", destination);
      if (target.length !== byteLength)
        call.refuse("destination", destination, "buffers that keep their size");
      target.set(bytes!.subarray(byteOffset, byteOffset + byteLength));
    } finally {
      this.#graph.release(version);
    }
  }

  copyDtoHSync(destination: HostBytes, source: Operand): void {
    const call = this.#begin("copyDtoHSync");
    const target = call.host("destination", destination);
    const { allocation, byteOffset } = call.place("source", source, target.length, 1);
    const bytes = this.#bytesOf(allocation.version);
    this.#reportFault();
    target.set(bytes!.subarray(byteOffset, byteOffset + target.length));
  }

  copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    const call = this.#begin("copyDtoD");
    call.whole("bytes", bytes);
    const output = call.place("destination", destination, bytes, 1);
    const input = call.place("source", source, bytes, 1);
    call.apart(["destination", output], ["source", input], "never");
    const { byteOffset } = input;
    const compute = (to: Bytes, [from]: readonly Bytes[]) =>
      to.set(from!.subarray(byteOffset, byteOffset + bytes), output.byteOffset);
    this.#record({ output, inputs: [input], compute });
  }

  fill(destination: Operand, value: number, count: number, dtype: DType = "f32"): void {
    const call = this.#begin("fill");
    call.choice("dtype", dtype, dtypes);
    call.whole("count", count);
    if (typeof value !== "number") call.refuse("value", value, "numbers");
    const { bytes: size, range } = elementTypes[dtype];
    if (range !== undefined && !(Number.isInteger(value) && value >= range[0] && value <= range[1]))
      call.refuse("value", value, `whole numbers from ${range[0]} to ${range[1]}`);
    const output = call.place("destination", destination, count, size);
    const { byteOffset } = output;
    const bits = elementTypes[dtype].toBits(value);
    const fills = {
      1: (bytes: Bytes) => bytes.fill(bits, byteOffset, byteOffset + count),
      2: (bytes: Bytes) => new Uint16Array(bytes.buffer, byteOffset, count).fill(bits),
      4: (bytes: Bytes) => new Uint32Array(bytes.buffer, byteOffset, count).fill(bits),
    };
    this.#record({ output, inputs: [], compute: fills[size] });
  }

  override run(given: OperationName | Operation, args: object): void {
    const name = typeof given === "string" ? given : given.name;
    const plan = Object.hasOwn(planners, name) ? planners[name as OperationName] : undefined;
    if (plan === undefined)
      throw this.#begin(name).error("UNSUPPORTED", "operation", `is ${name}, which this backend lacks`);
    this.#operate(name as OperationName, args, plan as Planner<object>);
  }

  #operate<Arguments extends Wishes>(name: OperationName, args: Arguments, plan: Planner<Arguments>): void {
    const call = this.#begin(name);
    call.names("arguments", args, argumentNames(name));
    const dtype = call.choice<DType>("dtype", args.dtype ?? "f32", dtypes);
    const question = questionOf(call, name, args);
    if (!this.supports(name, { dtype, ...question }))
      throw call.error(
        "UNSUPPORTED",
        Object.keys(question).join(", ") || "dtype",
        `in ${dtype}; see supports()`,
      );
    const planned = plan(call, args, dtype as FloatType);
    if (planned !== undefined) this.#record(planned);
  }

  /** Adds a new version to the output's allocation; computes nothing. */
  #record({ output, inputs, compute }: Plan, keptBytes = 0): void {
    if (output.byteLength === 0) return;
    const { allocation } = output;
    const previous = allocation.version;
    const sources = inputs.map((input) => input.allocation.version);
    allocation.version = this.#graph.add(
      { previous, inputs: sources, keptBytes, apply: compute },
      allocation.bytes,
    );
    this.#graph.release(previous);
    if (this.#graph.pendingSteps > mostPendingSteps || this.#graph.keptBytes > mostKeptBytes)
      this.#computeAll();
  }

  #computeAll(): void {
    for (const { version } of this.#live.values()) if ("step" in version.state!) this.#bytesOf(version);
  }

  /** Returns the bytes of a version; undefined if it has none, and then there is a fault to report. */
  #bytesOf(version: Version): Bytes | undefined {
    try {
      return this.#graph.bytesOf(version);
    } catch (cause) {
      const code = cause instanceof RangeError ? "OUT_OF_MEMORY" : "DEVICE_ERROR";
      const fault = new BackendError(code, `lazy: a result could not be computed: ${String(cause)}`, {
        cause,
      });
      this.#fault ??= fault;
      for (const listener of this.#errorListeners) queueMicrotask(() => listener(fault));
      return undefined;
    }
  }

  #reportFault(): void {
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) throw fault;
  }

  /** Every call that needs the device starts here. */
  #begin(name: string): Call {
    if (!this.#wasOpened || this.#isDisposed) throw this.#refusal(name);
    return new Call(name, this.#live);
  }

  #refusal(operation: string): BackendError {
    return this.#isDisposed
      ? new BackendError("DISPOSED", `${operation}: the backend was disposed of`, { operation })
      : new BackendError("NOT_INITIALIZED", `${operation}: init() has not resolved yet`, { operation });
  }
}
