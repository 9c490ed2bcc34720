import type { BackendError, DeviceHandle, SwitchableBackend } from "@backplane/core";
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
  readonly #mover: DataMover;
  readonly #ended: (store: TensorStore) => void;

  /** `ended` is called by `dispose`. */
  constructor(compute: SwitchableBackend, mover: DataMover, ended: (store: TensorStore) => void) {
    super();
    this.compute = compute;
    this.#mover = mover;
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
    await this.compute.copyDtoH(values, operandOf(data.memory!, data.byteOffset));
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
    this.compute.copyDtoHSync(values, operandOf(data.memory!, data.byteOffset));
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
    const { parts, memory, forms } = data;
    this.data.remove(data, dataId);
    this.#free(memory, forms);
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
    const finished = () => this.compute.synchronize().then(() => performance.now());
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
    for (const { memory, forms } of this.data) this.#free(memory, forms);
    this.data.clear();
    this.#ended(this);
  }

  /**
   * Writes again what the host has of data that a device has lost. Returns how many tensors stay lost: every use of
   * them fails.
   */
  restore(): number {
    const lost = new Set(this.compute.lost.map(({ handle }) => handle));
    let count = 0;
    for (const data of this.data) {
      for (const [name, form] of data.forms ?? [])
        if (lost.has(form)) {
          this.compute.free(form);
          data.forms?.delete(name);
        }
      if (data.memory === undefined || !lost.has(data.memory.handle)) continue;
      if (this.knownOf(data) === undefined) count++;
      else {
        this.#leave(data.memory);
        data.memory = undefined;
        data.byteOffset = 0;
      }
    }
    return count;
  }

  // Plumbing

  protected add(data: Data, dataId?: DataId): DataId {
    this.data.add(data, dataId);
    return dataId ?? data.name;
  }

  protected dataOf(dataId: DataId): Data {
    const found = this.data.find(dataId);
    if (found !== undefined) return found;
    this.#mover.moveData(this, dataId);
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

  #free(memory: Memory | undefined, forms: Data["forms"]): void {
    if (forms !== undefined) for (const form of forms.values()) this.freeHandle(form);
    if (memory !== undefined) this.#leave(memory);
  }

  /** Frees memory that one of its data no longer uses, if it was the last one. */
  #leave(memory: Memory): void {
    memory.uses--;
    if (memory.uses === 0) this.freeHandle(memory.handle);
  }

  protected freeHandle(handle: DeviceHandle): void {
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
