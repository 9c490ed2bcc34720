import { BackendError, type DeviceHandle, type SwitchableBackend } from "@backplane/core";
import {
  type BackendTimingInfo,
  type BackendValues,
  backend_util,
  type DataType,
  KernelBackend,
  type TensorInfo,
} from "@tensorflow/tfjs-core";
import { type Content, Data, type DataId, DataList } from "./data.js";
import { type DeviceType, elementCount, elementsOf } from "./elements.js";

/** What a kernel has done to the references of tensors: an entry for each reference. */
interface References {
  readonly begun: DataId[];
  ended: DataId[] | undefined;
}

/** Where tensors of unknown data come from: the engine of TensorFlow.js. */
export interface DataMover {
  /** Moves data from another backend of TensorFlow.js to this one, by `move`. */
  moveData(backend: KernelBackend, dataId: DataId): void;
}

/** What a kernel writes: a new tensor, and its place on the device. */
export interface Output extends TensorInfo {
  readonly handle: DeviceHandle;
}

/**
 * Tensors of TensorFlow.js on a `ComputeBackend`.
 *
 * Data lie on the host until a kernel needs them on the device, and stay there too. What has been read is kept, until
 * the tensor is disposed of.
 */
export class BackplaneBackend extends KernelBackend {
  readonly compute: SwitchableBackend;
  readonly #mover: DataMover;
  readonly #data = new DataList();
  readonly #ended: (backend: BackplaneBackend) => void;
  /** The kernel under way. */
  #kernel: References | undefined;

  /** `ended` is called by `dispose`. */
  constructor(compute: SwitchableBackend, mover: DataMover, ended: (backend: BackplaneBackend) => void) {
    super();
    this.compute = compute;
    this.#mover = mover;
    this.#ended = ended;
  }

  // What the engine of TensorFlow.js calls

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
    if (dtype !== "complex64") return this.#add(new Data(dtype, count, { values }, references), dataId);
    const { real, imag } = backend_util.splitRealAndImagArrays(values as Float32Array);
    const part = (partValues: Float32Array): TensorInfo => {
      const partId = this.#add(new Data("float32", count, { values: partValues }, 1));
      return { dataId: partId, shape: [...shape], dtype: "float32" };
    };
    return this.#add(
      new Data(dtype, count, { parts: { real: part(real), imag: part(imag) } }, references),
      dataId,
    );
  }

  override async read(dataId: DataId): Promise<BackendValues> {
    const data = this.#get(dataId);
    if (data.parts !== undefined) {
      const { real, imag } = data.parts;
      const [realValues, imagValues] = await Promise.all([this.read(real.dataId), this.read(imag.dataId)]);
      return backend_util.mergeRealAndImagArrays(realValues as Float32Array, imagValues as Float32Array);
    }
    const known = this.#known(data);
    if (known !== undefined) return known;
    const values = elementsOf(data.dtype, "The tensor").array(data.count);
    await this.compute.copyDtoH(values, data.handle!);
    data.values ??= values;
    return data.values;
  }

  override readSync(dataId: DataId): BackendValues {
    const data = this.#get(dataId);
    if (data.parts !== undefined) {
      const { real, imag } = data.parts;
      return backend_util.mergeRealAndImagArrays(
        this.readSync(real.dataId) as Float32Array,
        this.readSync(imag.dataId) as Float32Array,
      );
    }
    const known = this.#known(data);
    if (known !== undefined) return known;
    if (!this.compute.capabilities.synchronousReads)
      throw new Error(
        `The values are on the device of ${this.compute.current}, which cannot be read without waiting: ` +
          "use await tensor.data() in place of dataSync(). A kernel of the host finds them once they have been read.",
      );
    const values = elementsOf(data.dtype, "The tensor").array(data.count);
    this.compute.copyDtoHSync(values, data.handle!);
    data.values = values;
    return values;
  }

  override numDataIds(): number {
    return this.#data.size;
  }

  override refCount(dataId: DataId): number {
    return this.#data.find(dataId)?.references ?? 0;
  }

  override incRef(dataId: DataId): void {
    this.#get(dataId).references++;
  }

  override disposeData(dataId: DataId, force = false): boolean {
    const data = this.#data.find(dataId);
    if (data === undefined) return true;
    data.references--;
    if (!force && data.references > 0) return false;
    const { parts, handle, forms } = data;
    this.#data.remove(data, dataId);
    this.#free(handle, forms);
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
    const begun = this.compute.synchronize().then(() => performance.now());
    body();
    const ended = this.compute.synchronize().then(() => performance.now());
    return { kernelMs: (await ended) - (await begun) };
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
    for (const { handle, forms } of this.#data) this.#free(handle, forms);
    this.#data.clear();
    this.#ended(this);
  }

  // What kernels call

  /** Runs a kernel. If it throws, ends the references that it has begun and not ended. */
  undoneOnFailure<Given, Result>(kernel: (given: Given) => Result, given: Given): Result {
    const outer = this.#kernel;
    const references: References = { begun: [], ended: undefined };
    this.#kernel = references;
    try {
      return kernel(given);
    } catch (error) {
      const { begun, ended = [] } = references;
      for (const dataId of ended) {
        const place = begun.indexOf(dataId);
        if (place >= 0) begun.splice(place, 1);
      }
      for (const dataId of begun) this.disposeData(dataId);
      throw error;
    } finally {
      this.#kernel = outer;
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
    return { dataId: this.#new(shape, dtype, { handle }), shape: [...shape], dtype, handle };
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
    const { parts, dtype } = this.#get(dataId);
    if (parts === undefined) throw new Error(`The tensor is of type ${dtype}; allowed: complex64`);
    return { real: { ...parts.real, shape }, imag: { ...parts.imag, shape } };
  }

  /** A further reference to the same data, with a shape of as many elements. */
  share({ dataId, dtype }: TensorInfo, shape: readonly number[]): TensorInfo {
    this.incRef(dataId);
    this.#kernel?.begun.push(dataId);
    return { dataId, shape: [...shape], dtype };
  }

  /** Ends a reference. */
  release({ dataId }: TensorInfo): void {
    this.#end(dataId);
    this.disposeData(dataId);
  }

  /** The place of the elements on the device. Uploads what is on the host only. */
  place({ dataId }: TensorInfo): DeviceHandle {
    const data = this.#get(dataId);
    if (data.handle !== undefined) return data.handle;
    const { bytes, dtype, arrayOf } = elementsOf(data.dtype, "The tensor");
    const handle = this.compute.alloc(data.count * bytes, { zero: data.constant === 0 });
    try {
      if (data.constant === undefined) {
        const values = data.values as ArrayLike<number>;
        this.compute.copyHtoD(handle, arrayOf(values));
      } else if (data.constant !== 0) this.compute.fill(handle, data.constant, data.count, dtype);
    } catch (error) {
      this.#freeHandle(handle);
      throw error;
    }
    data.handle = handle;
    return handle;
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
    const data = this.#get(dataId);
    const found = data.forms?.get(name);
    if (found !== undefined) return found;
    const handle = this.compute.alloc(bytes, unzeroed);
    try {
      write(handle);
    } catch (error) {
      this.#freeHandle(handle);
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
    this.#get(dataId).note = note;
  }

  /** What was noted last. */
  noted({ dataId }: TensorInfo): object | undefined {
    return this.#get(dataId).note;
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
    return this.#known(this.#get(dataId));
  }

  /** The number that a tensor of one element holds, if the host has it, it is finite in f32, and the device does not have it. */
  number({ dataId }: TensorInfo): number | undefined {
    const data = this.#get(dataId);
    if (data.count !== 1 || data.handle !== undefined) return undefined;
    const value = data.constant ?? (data.values?.[0] as number | undefined);
    return value !== undefined && Number.isFinite(Math.fround(value)) ? value : undefined;
  }

  /**
   * Writes again what the host has of data that a device has lost. Returns how many tensors stay lost: every use of
   * them fails.
   */
  restore(): number {
    const lost = new Set(this.compute.lost.map(({ handle }) => handle));
    let count = 0;
    for (const data of this.#data) {
      for (const [name, form] of data.forms ?? [])
        if (lost.has(form)) {
          this.compute.free(form);
          data.forms?.delete(name);
        }
      if (data.handle === undefined || !lost.has(data.handle)) continue;
      if (this.#known(data) === undefined) count++;
      else {
        this.compute.free(data.handle);
        data.handle = undefined;
      }
    }
    return count;
  }

  // Plumbing

  /** Adds the data of a tensor that a kernel makes. */
  #new(shape: readonly number[], dtype: DataType, content: Content): DataId {
    const data = new Data(dtype, elementCount(shape), content, 1);
    this.#data.add(data);
    this.#kernel?.begun.push(data.name);
    return data.name;
  }

  /** Notes that the kernel under way has ended a reference, or has handed it over. */
  #end(dataId: DataId): void {
    if (this.#kernel === undefined) return;
    this.#kernel.ended ??= [];
    this.#kernel.ended.push(dataId);
  }

  #add(data: Data, dataId?: DataId): DataId {
    this.#data.add(data, dataId);
    return dataId ?? data.name;
  }

  #get(dataId: DataId): Data {
    const found = this.#data.find(dataId);
    if (found !== undefined) return found;
    this.#mover.moveData(this, dataId);
    const moved = this.#data.find(dataId);
    if (moved === undefined) throw new Error("The tensor has been disposed of, or is not one of this engine");
    return moved;
  }

  /** The values on the host, if they are there. */
  #known(data: Data): BackendValues | undefined {
    if (data.values === undefined && data.constant !== undefined)
      data.values = elementsOf(data.dtype, "The tensor").array(data.count).fill(data.constant);
    return data.values;
  }

  #free(handle: DeviceHandle | undefined, forms: Data["forms"]): void {
    if (forms !== undefined) for (const form of forms.values()) this.#freeHandle(form);
    if (handle !== undefined) this.#freeHandle(handle);
  }

  #freeHandle(handle: DeviceHandle): void {
    try {
      this.compute.free(handle);
    } catch (error) {
      const { code } = error as Partial<BackendError>;
      // Nothing is left to free on a device that is gone.
      if (code !== "DEVICE_LOST" && code !== "DISPOSED" && code !== "INVALID_HANDLE") throw error;
    }
  }
}

/** Of memory all of which is written at once. */
const unzeroed = { zero: false } as const;

/** What TensorFlow.js adds to divisors in f32. */
const epsilonOfFloat32 = 1e-7;
