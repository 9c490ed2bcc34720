import { BackendError, type DeviceHandle, type Operand, type SwitchableBackend } from "@backplane/core";
import type { BackendValues, DataType, TensorInfo } from "@tensorflow/tfjs-core";
import { type Content, Data, type DataId, type Memory, type Pending } from "./data.js";
import {
  type DeviceType,
  elementCount,
  elementsOf,
  type HostArray,
  isDeviceType,
  isShared,
} from "./elements.js";
import { type DataMover, TensorStore } from "./store.js";

/** What a kernel writes: a new tensor, and its place on the device. */
export interface Output extends TensorInfo {
  readonly handle: DeviceHandle;
}

/** A backend of TensorFlow.js on a `ComputeBackend`: a store of tensors, and what kernels do with them. */
export class BackplaneBackend extends TensorStore {
  /** The most elements of tensors that kernels compute on the host: see `atHand`. */
  readonly hostElements: number;
  /** Whether chains of elementwise kernels become one: see `Deferred`. */
  readonly fusion: boolean;
  /** How many tensors kernels have computed on the host. */
  hostResults = 0;
  /** How many kernels are under way, one within the other. */
  #depth = 0;
  /** The references that they have begun; undefined where one has ended since. What comes after the count is of no meaning. */
  readonly #begun: (DataId | undefined)[] = [];
  #begunCount = 0;

  constructor(
    compute: SwitchableBackend,
    mover: DataMover,
    ended: (store: TensorStore) => void,
    { hostElements, fusion }: { readonly hostElements: number; readonly fusion: boolean },
  ) {
    super(compute, mover, ended);
    this.hostElements = hostElements;
    this.fusion = fusion;
  }

  /** Runs a kernel. If it throws, ends the references that it has begun and not ended. */
  undoneOnFailure<Given, Result>(kernel: (given: Given) => Result, given: Given): Result {
    const first = this.#begunCount;
    this.#depth++;
    try {
      return kernel(given);
    } catch (error) {
      for (let i = first; i < this.#begunCount; i++) {
        const dataId = this.#begun[i];
        if (dataId !== undefined) this.disposeData(dataId);
      }
      throw error;
    } finally {
      this.#begunCount = first;
      this.#depth--;
    }
  }

  /** A new tensor with values of the host, or of a constant that is made where it is needed. */
  make(shape: readonly number[], dtype: DataType, values: BackendValues | number): TensorInfo {
    const content = typeof values === "number" ? { constant: values } : { values };
    return { dataId: this.#new(shape, dtype, content), shape: [...shape], dtype };
  }

  /** A new tensor on the device. The kernel writes all of it, unless `zero`. */
  output(
    shape: readonly number[],
    dtype: DeviceType,
    options: { readonly zero: boolean } = unzeroed,
  ): Output {
    const bytes = elementCount(shape) * elementsOf(dtype, "The output").bytes;
    const handle = this.compute.alloc(bytes, options);
    const memory: Memory = { handle, bytes, uses: 1, isLost: false };
    return { dataId: this.#new(shape, dtype, { memory }), shape: [...shape], dtype, handle };
  }

  /**
   * A new tensor of the elements from one of another tensor on, in the same memory. Undefined if they are so small a part of it
   * that they should not keep all of it, or begin between vectors, so that kernels would have to read them one by one.
   */
  part(tensor: TensorInfo, first: number, shape: readonly number[]): TensorInfo | undefined {
    const { dtype } = tensor;
    const { bytes } = elementsOf(dtype, "The tensor");
    this.place(tensor);
    const { memory, byteOffset } = this.dataOf(tensor.dataId);
    const partBytes = elementCount(shape) * bytes;
    const begin = byteOffset + first * bytes;
    if (memory === undefined || partBytes === 0 || begin % vectorBytes !== 0) return undefined;
    if (leastPart * memory.bytes > partBytes) return undefined;
    memory.uses++;
    const content = { memory, byteOffset: begin };
    return { dataId: this.#new(shape, dtype, content), shape: [...shape], dtype };
  }

  /** A complex tensor of two float32 ones, whose references it takes over. */
  complex(real: TensorInfo, imag: TensorInfo): TensorInfo {
    const dataId = this.#new(real.shape, "complex64", { parts: { real, imag } });
    this.#end(real.dataId);
    this.#end(imag.dataId);
    return { dataId, shape: [...real.shape], dtype: "complex64" };
  }

  /** The parts of a complex tensor, without references of their own. */
  parts({ dataId, shape }: TensorInfo): { readonly real: TensorInfo; readonly imag: TensorInfo } {
    const { parts, dtype } = this.dataOf(dataId);
    if (parts === undefined) throw new Error(`The tensor is of type ${dtype}; allowed: complex64`);
    return { real: { ...parts.real, shape }, imag: { ...parts.imag, shape } };
  }

  /** A further reference to the same data, with a shape of as many elements. */
  share({ dataId, dtype }: TensorInfo, shape: readonly number[]): TensorInfo {
    this.incRef(dataId);
    this.#begin(dataId);
    return { dataId, shape: [...shape], dtype };
  }

  /**
   * A new tensor of the same elements, where they are, that ends by itself. The engine counts data until it is told that their
   * last reference has ended: it is not told of one that a complex tensor holds, which may therefore not be of data that it knows.
   */
  alias({ dataId, dtype }: TensorInfo, shape: readonly number[]): TensorInfo {
    const data = this.dataOf(dataId);
    if (data.pending !== undefined) this.placeOf(data);
    const { values, isShared, constant, memory, byteOffset } = data;
    if (memory !== undefined) memory.uses++;
    const content: Content = {
      ...(values === undefined ? {} : { values, isShared }),
      ...(constant === undefined ? {} : { constant }),
      ...(memory === undefined ? {} : { memory, byteOffset }),
    };
    return { dataId: this.#new(shape, dtype, content), shape: [...shape], dtype };
  }

  /** Ends a reference. */
  release({ dataId }: TensorInfo): void {
    this.#end(dataId);
    this.disposeData(dataId);
  }

  /** The place of the elements on the device. Uploads what is on the host only, and computes what is pending. */
  place({ dataId }: TensorInfo): Operand {
    return this.placeOf(this.dataOf(dataId));
  }

  /**
   * Whether results may be pending now. While gradients are recorded, most of them are needed again. On a device that is lost
   * they fail at once.
   */
  defers(): boolean {
    if (!this.fusion) return false;
    if (this.heldBytes > mostHeldBytes) this.computeAll();
    return this.mover.state.gradientDepth === 0 && this.compute.state !== "lost";
  }

  /** A new tensor that is computed when it is needed on the device. */
  defer(shape: readonly number[], dtype: DeviceType, pending: Pending): TensorInfo {
    for (let i = 0; i < pending.operands.length; i++) pending.operands[i]!.consumers++;
    return { dataId: this.#new(shape, dtype, { pending }), shape: [...shape], dtype };
  }

  /** Memory for data that are pending. */
  allocate({ count, dtype }: Data): DeviceHandle {
    return this.compute.alloc(count * elementsOf(dtype, "The output").bytes, unzeroed);
  }

  /** Data that were pending have been written to memory that was allocated for them. */
  finish(data: Data, handle: DeviceHandle): void {
    const bytes = data.count * elementsOf(data.dtype, "The output").bytes;
    data.memory = { handle, bytes, uses: 1, isLost: false };
    this.settle(data);
  }

  /**
   * Another form of the data on the device, of `bytes` bytes, written by `write` when it is asked for first. It is kept as
   * long as the data: the values of a tensor never change.
   */
  form(
    { dataId }: TensorInfo,
    name: string,
    bytes: number,
    write: (handle: DeviceHandle) => void,
  ): DeviceHandle {
    const data = this.dataOf(dataId);
    const found = data.forms?.get(name);
    if (found !== undefined) return found;
    const handle = this.compute.alloc(bytes, unzeroed);
    try {
      write(handle);
    } catch (error) {
      this.freeHandle(handle);
      throw error;
    }
    data.forms ??= new Map();
    data.forms.set(name, handle);
    return handle;
  }

  /**
   * Keeps one object with the data of a tensor, such as a filter, in place of the one before. Calls of a model repeat: a
   * kernel that finds what it noted, and sees that it fits, need not work out the same again.
   */
  note({ dataId }: TensorInfo, note: object): void {
    this.dataOf(dataId).note = note;
  }

  /** What was noted last. */
  noted({ dataId }: TensorInfo): object | undefined {
    return this.dataOf(dataId).note;
  }

  /** The values on the host. `kernel` names who needs them there, if they cannot be read. */
  values({ dataId }: TensorInfo, kernel: string): BackendValues {
    try {
      return this.readSync(dataId);
    } catch (error) {
      if (error instanceof BackendError) throw error;
      throw new Error(`${kernel} works on the host. ${(error as Error).message}`);
    }
  }

  /** The values, if they are on the host. */
  known({ dataId }: TensorInfo): BackendValues | undefined {
    return this.knownOf(this.dataOf(dataId));
  }

  /** The elements of a tensor of few, if only the host has them. A kernel that gets all of its inputs so may stay there. */
  atHand({ dataId }: TensorInfo): HostArray | undefined {
    const data = this.dataOf(dataId);
    if (data.memory !== undefined || data.count > this.hostElements || !isDeviceType(data.dtype))
      return undefined;
    const values = this.knownOf(data);
    if (values === undefined) return undefined;
    return elementsOf(data.dtype, "The tensor").arrayOf(values as ArrayLike<number>);
  }

  /** A new tensor with elements that a kernel has computed on the host, in a `resultArray`. */
  makeOnHost(shape: readonly number[], dtype: DeviceType, values: HostArray): TensorInfo {
    this.hostResults++;
    const content = { values, isShared: isShared(values.byteLength) };
    return { dataId: this.#new(shape, dtype, content), shape: [...shape], dtype };
  }

  /** The number that a tensor of one element holds, if the host has it, it is finite in f32, and the device does not have it. */
  number({ dataId }: TensorInfo): number | undefined {
    const data = this.dataOf(dataId);
    if (data.count !== 1 || data.memory !== undefined) return undefined;
    const value = data.constant ?? (data.values?.[0] as number | undefined);
    return value !== undefined && Number.isFinite(Math.fround(value)) ? value : undefined;
  }

  /** Adds the data of a tensor that a kernel makes. */
  #new(shape: readonly number[], dtype: DataType, content: Content): DataId {
    const data = new Data(dtype, elementCount(shape), content, 1);
    this.data.add(data);
    this.#begin(data.name);
    return data.name;
  }

  /** Notes that the kernel under way has begun a reference. */
  #begin(dataId: DataId): void {
    // The list is never cut: that takes longer than the rest of this.
    if (this.#depth > 0) this.#begun[this.#begunCount++] = dataId;
  }

  /** Notes that it has ended one, or has handed it over. */
  #end(dataId: DataId): void {
    for (let i = this.#begunCount - 1; i >= 0; i--)
      if (this.#begun[i] === dataId) {
        this.#begun[i] = undefined;
        return;
      }
  }
}

/**
 * The most memory that pending results may keep after its tensors have been disposed of. With more, all are computed before the
 * next elementwise kernel: steps of an optimizer took up to 1.1 times as long when they read gradients that were long out of
 * the caches.
 */
const mostHeldBytes = 2 ** 18;

const vectorBytes = 16;

/** The least share of memory that a tensor may keep alive by being a part of it. */
const leastPart = 1 / 8;

/** Of memory all of which is written at once. */
const unzeroed = { zero: false } as const;
