import type { AllocOptions, BackendState, ComputeBackend, HostBytes } from "../backend.js";
import type { Capabilities, MemoryStatistics } from "../capabilities.js";
import type { DType } from "../dtype.js";
import type { BackendError } from "../errors.js";
import type { DeviceHandle, Operand } from "../handles.js";
import type { OperationName } from "../ops/index.js";
import { operationOf } from "../ops/lookup.js";
import { OperationMethods } from "../ops/methods.js";
import type { Operation } from "../ops/operation.js";
import { callOperation } from "../recording/calls.js";
import type { Question } from "../support.js";

/**
 * A backend that hands every call to another one, whose handles it has: the base of wrappers that watch calls or add
 * something to them. They override what they need. All operations go through `run`; `record` makes recordings that repeat
 * the calls through the wrapper.
 */
export abstract class ForwardingBackend extends OperationMethods implements ComputeBackend {
  protected readonly inner: ComputeBackend;

  constructor(inner: ComputeBackend) {
    super();
    this.inner = inner;
  }

  get name(): string {
    return this.inner.name;
  }

  get state(): BackendState {
    return this.inner.state;
  }

  get capabilities(): Capabilities {
    return this.inner.capabilities;
  }

  init(): Promise<void> {
    return this.inner.init();
  }

  flush(): void {
    this.inner.flush();
  }

  synchronize(): Promise<void> {
    return this.inner.synchronize();
  }

  dispose(): Promise<void> {
    return this.inner.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  onLost(listener: (error: BackendError) => void): () => void {
    return this.inner.onLost(listener);
  }

  onError(listener: (error: BackendError) => void): () => void {
    return this.inner.onError(listener);
  }

  supports(operation: OperationName | Operation, question?: Question): boolean {
    return this.inner.supports(operation, question);
  }

  memory(): MemoryStatistics {
    return this.inner.memory();
  }

  trim(): void {
    this.inner.trim();
  }

  native(handle?: DeviceHandle): unknown {
    return this.inner.native(handle);
  }

  alloc(bytes: number, options?: AllocOptions): DeviceHandle {
    return this.inner.alloc(bytes, options);
  }

  free(handle: DeviceHandle): void {
    this.inner.free(handle);
  }

  copyHtoD(destination: Operand, source: HostBytes): void {
    this.inner.copyHtoD(destination, source);
  }

  copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    return this.inner.copyDtoH(destination, source);
  }

  copyDtoHSync(destination: HostBytes, source: Operand): void {
    this.inner.copyDtoHSync(destination, source);
  }

  copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    this.inner.copyDtoD(destination, source, bytes);
  }

  fill(destination: Operand, value: number, count: number, dtype?: DType): void {
    this.inner.fill(destination, value, count, dtype);
  }

  override run(given: OperationName | Operation, args: object): void {
    callOperation(this.inner, operationOf("run", given), args);
  }
}
