import type { BackendError, DeviceHandle, Operand, SwitchableBackend } from "@backplane/core";
import {
  type BackendTimingInfo,
  type BackendValues,
  backend_util,
  type DataType,
  KernelBackend,
  type TensorInfo,
} from "@tensorflow/tfjs-core";
import { Data, type DataId, DataList, type Memory, operandOf } from "./data.js";
import { elementCount, elementsOf } from "./elements.js";

/** Where tensors of unknown data come from: the engine of TensorFlow.js. */
export interface DataMover {
  /** Moves data from another backend of TensorFlow.js to this one, by `move`. */
  moveData(backend: KernelBackend, dataId: DataId): void;
  readonly state: {
    /** How many functions are being recorded for their gradients, one within the other. */
    readonly gradientDepth: number;
  };
}

/**
 * The data of tensors, as the engine of TensorFlow.js writes, reads and counts them.
 *
 * Data lie on the host until a kernel needs them on the device, and stay there too. What has been read is kept, until
 * the tensor is disposed of.
 */
export class TensorStore extends KernelBackend {
  readonly compute: SwitchableBackend;
  protected readonly data: DataList = new DataList();
  /** What is kept for pending data alone. */
  protected heldBytes = 0;
  protected readonly mover: DataMover;
  readonly #ended: (store: TensorStore) => void;

  /** `ended` is called by `dispose`. */
  constructor(compute: SwitchableBackend, mover: DataMover, ended: (store: TensorStore) => void) {
    super();
    this.compute = compute;
    this.mover = mover;
    this.#ended = ended;
  }

  override write(values: BackendValues, shape: number[], dtype: DataType): DataId {
    return this.#write(values, shape, dtype, 1, undefined);
  }

  override move(
    dataId: DataId,
    values: BackendValues,
    shape: number[],
    dtype: DataType,
    refCount: number,
  ): void {
    this.#write(values, shape, dtype, refCount, dataId);
  }

  /** `dataId`: a name that another backend has given. Default: they name themselves. */
  #write(
    values: BackendValues,
    shape: readonly number[],
    dtype: DataType,
    references: number,
    dataId: DataId | undefined,
  ): DataId {
    const count = elementCount(shape);
    if (dtype !== "complex64") return this.add(new Data(dtype, count, { values }, references), dataId);
    const { real, imag } = backend_util.splitRealAndImagArrays(values as Float32Array);
    const part = (partValues: Float32Array): TensorInfo => {
      const partId = this.add(new Data("float32", count, { values: partValues }, 1));
      return { dataId: partId, shape: [...shape], dtype: "float32" };
    };
    return this.add(
      new Data(dtype, count, { parts: { real: part(real), imag: part(imag) } }, references),
      dataId,
    );
  }

  override async read(dataId: DataId): Promise<BackendValues> {
    const data = this.dataOf(dataId);
    if (data.parts !== undefined) {
      const { real, imag } = data.parts;
      const [realValues, imagValues] = await Promise.all([this.read(real.dataId), this.read(imag.dataId)]);
      return backend_util.mergeRealAndImagArrays(realValues as Float32Array, imagValues as Float32Array);
    }
    const known = this.#ownOf(data);
    if (known !== undefined) return known;
    const values = elementsOf(data.dtype, "The tensor").array(data.count);
    await this.compute.copyDtoH(values, this.placeOf(data));
    data.values ??= values;
    return data.values;
  }

  override readSync(dataId: DataId): BackendValues {
    const data = this.dataOf(dataId);
    if (data.parts !== undefined) {
      const { real, imag } = data.parts;
      return backend_util.mergeRealAndImagArrays(
        this.readSync(real.dataId) as Float32Array,
        this.readSync(imag.dataId) as Float32Array,
      );
    }
    const known = this.#ownOf(data);
    if (known !== undefined) return known;
    if (!this.compute.capabilities.synchronousReads)
      throw new Error(
        `The values are on the device of ${this.compute.current}, which cannot be read without waiting: ` +
          "use await tensor.data() in place of dataSync(). A kernel of the host finds them once they have been read.",
      );
    const values = elementsOf(data.dtype, "The tensor").array(data.count);
    this.compute.copyDtoHSync(values, this.placeOf(data));
    data.values = values;
    return values;
  }

  override numDataIds(): number {
    return this.data.size;
  }

  override refCount(dataId: DataId): number {
    return this.data.find(dataId)?.references ?? 0;
  }

  override incRef(dataId: DataId): void {
    this.dataOf(dataId).references++;
  }

  override disposeData(dataId: DataId, force = false): boolean {
    const data = this.data.find(dataId);
    if (data === undefined) return true;
    data.references--;
    if (!force && data.references > 0) return false;
    data.references = 0;
    const { parts } = data;
    this.data.remove(data, dataId);
    if (data.consumers === 0) this.#end(data);
    else if (data.memory !== undefined) {
      data.heldBytes = data.memory.bytes;
      this.heldBytes += data.heldBytes;
    }
    if (parts !== undefined) {
      this.disposeData(parts.real.dataId);
      this.disposeData(parts.imag.dataId);
    }
    return true;
  }

  override timerAvailable(): boolean {
    return true;
  }

  /** Time until the device has finished, in milliseconds. Calls `body` at once. */
  override async time(body: () => void): Promise<BackendTimingInfo> {
    const finished = async () => {
      this.computeAll();
      await this.compute.synchronize();
      return performance.now();
    };
    // Where calls may compute before they return, what came before must have ended when the body begins.
    const before = this.compute.capabilities.synchronousReads ? this.#finishedSync() : finished();
    // If the body throws, nobody awaits it.
    if (before instanceof Promise) before.catch(() => {});
    body();
    const [begun, ended] = await Promise.all([before, finished()]);
    return { kernelMs: ended - begun };
  }

  /** The time, once the device has finished: a read waits for all that came before it. */
  #finishedSync(): number {
    this.computeAll();
    const handle = this.compute.alloc(1);
    try {
      this.compute.copyDtoHSync(new Uint8Array(1), handle);
    } finally {
      this.freeHandle(handle);
    }
    return performance.now();
  }

  override memory(): { unreliable: boolean; reasons?: string[]; numBytesOnDevice: number } {
    return { unreliable: false, numBytesOnDevice: this.compute.memory().liveBytes };
  }

  override floatPrecision(): 16 | 32 {
    return 32;
  }

  override epsilon(): number {
    return epsilonOfFloat32;
  }

  /** Frees the data. The device stays open for the next backend of the same registration. */
  override dispose(): void {
    const all = [...this.data];
    this.data.clear();
    for (const data of all) this.settle(data);
    for (const data of all) this.#end(data);
    this.#ended(this);
  }

  /**
   * Writes again what the host has of data that a device has lost. Returns how many tensors stay lost: every use of
   * them fails.
   */
  restore(): number {
    const lost = new Set(this.compute.lost.map(({ handle }) => handle));
    const all = new Set<Data>();
    const add = (data: Data) => {
      if (all.has(data)) return;
      all.add(data);
      data.pending?.operands.forEach(add);
    };
    for (const data of this.data) add(data);
    for (const data of all) {
      for (const [name, form] of data.forms ?? [])
        if (lost.has(form)) {
          this.compute.free(form);
          data.forms?.delete(name);
        }
      if (data.memory === undefined || !lost.has(data.memory.handle)) continue;
      if (this.knownOf(data) === undefined) data.memory.isLost = true;
      else {
        this.#leave(data.memory);
        data.memory = undefined;
        data.byteOffset = 0;
      }
    }
    const isLost = ({ memory, pending }: Data): boolean =>
      memory === undefined ? pending?.operands.some(isLost) === true : memory.isLost;
    let count = 0;
    for (const data of this.data) if (isLost(data)) count++;
    return count;
  }

  // Plumbing

  protected add(data: Data, dataId?: DataId): DataId {
    this.data.add(data, dataId);
    return dataId ?? data.name;
  }

  dataOf(dataId: DataId): Data {
    const found = this.data.find(dataId);
    if (found !== undefined) return found;
    this.mover.moveData(this, dataId);
    const moved = this.data.find(dataId);
    if (moved === undefined) throw new Error("The tensor has been disposed of, or is not one of this engine");
    return moved;
  }

  /** The values on the host, if they are there. */
  protected knownOf(data: Data): BackendValues | undefined {
    if (data.values === undefined && data.constant !== undefined)
      data.values = elementsOf(data.dtype, "The tensor").array(data.count).fill(data.constant);
    return data.values;
  }

  /** The same in memory of their own: users may do with it what they like. */
  #ownOf(data: Data): BackendValues | undefined {
    const known = this.knownOf(data);
    if (!data.isShared) return known;
    data.isShared = false;
    data.values = known!.slice();
    return data.values;
  }

  /** The place of the elements on the device. Uploads what is on the host only, and computes what is pending. */
  placeOf(data: Data): Operand {
    if (data.memory === undefined) {
      if (data.pending === undefined) this.#upload(data);
      else data.pending.compute(data);
    }
    return operandOf(data.memory!, data.byteOffset);
  }

  #upload(data: Data): void {
    const { bytes: elementBytes, dtype, arrayOf } = elementsOf(data.dtype, "The tensor");
    const bytes = data.count * elementBytes;
    const handle = this.compute.alloc(bytes, { zero: data.constant === 0 });
    try {
      if (data.constant === undefined) {
        const values = data.values as ArrayLike<number>;
        this.compute.copyHtoD(handle, arrayOf(values));
      } else if (data.constant !== 0) this.compute.fill(handle, data.constant, data.count, dtype);
    } catch (error) {
      this.freeHandle(handle);
      throw error;
    }
    data.memory = { handle, bytes, uses: 1, isLost: false };
  }

  /** Computes all that is pending. What fails stays so: it fails again where it is needed. */
  computeAll(): void {
    for (const data of this.data)
      try {
        if (data.pending !== undefined) this.placeOf(data);
      } catch {}
  }

  /** Data are not pending any more: ends what only they have kept. */
  settle(data: Data): void {
    const { pending } = data;
    if (pending === undefined) return;
    data.pending = undefined;
    for (let i = 0; i < pending.operands.length; i++) {
      const operand = pending.operands[i]!;
      operand.consumers--;
      if (operand.consumers === 0 && operand.references <= 0) this.#end(operand);
    }
  }

  /** Frees what data hold that nobody needs any more. */
  #end(data: Data): void {
    this.settle(data);
    const { memory, forms } = data;
    this.heldBytes -= data.heldBytes;
    data.heldBytes = 0;
    data.values = undefined;
    data.memory = undefined;
    data.forms = undefined;
    data.note = undefined;
    data.parts = undefined;
    if (forms !== undefined) for (const form of forms.values()) this.freeHandle(form);
    if (memory !== undefined) this.#leave(memory);
  }

  /** Frees memory that one of its data no longer uses, if it was the last one. */
  #leave(memory: Memory): void {
    memory.uses--;
    if (memory.uses === 0) this.freeHandle(memory.handle);
  }

  freeHandle(handle: DeviceHandle): void {
    try {
      this.compute.free(handle);
    } catch (error) {
      const { code } = error as Partial<BackendError>;
      // Nothing is left to free on a device that is gone.
      if (code !== "DEVICE_LOST" && code !== "DISPOSED" && code !== "INVALID_HANDLE") throw error;
    }
  }
}

/** What TensorFlow.js adds to divisors in f32. */
const epsilonOfFloat32 = 1e-7;
