import type { DeviceHandle, Operand } from "@backplane/core";
import type { BackendValues, DataType, TensorInfo } from "@tensorflow/tfjs-core";

/** Names the data of a tensor. */
export type DataId = TensorInfo["dataId"];

/** Memory of the device. Tensors that are parts of another one share it. */
export interface Memory {
  readonly handle: DeviceHandle;
  readonly bytes: number;
  /** How many data lie in it. It is freed with the last one. */
  uses: number;
  /** It was on a device that is lost, and nobody has its contents. */
  isLost: boolean;
}

/** How data are computed that nobody has needed yet. */
export interface Pending {
  /** What they are computed of: places on the device, or pending themselves. Each counts them among its `consumers`. */
  readonly operands: readonly Data[];
  /** Computes them: then they have memory, and are not pending any more. If that fails, nothing changes. */
  compute(data: Data): void;
}

/** Where the data of a tensor are: at least one of these is there. */
export interface Content {
  /** On the host: given by the user, or read from the device before. */
  readonly values?: BackendValues | undefined;
  /** Whether `values` lie in memory that others have parts of, too. Users get copies. */
  readonly isShared?: boolean;
  /** All elements have this value. */
  readonly constant?: number;
  /** On the device. */
  readonly memory?: Memory;
  /** Where they begin in the memory. Default: 0. */
  readonly byteOffset?: number;
  /** Of complex64: each of them has a reference of its own. */
  readonly parts?: { readonly real: TensorInfo; readonly imag: TensorInfo };
  /** Nowhere yet. */
  readonly pending?: Pending;
}

/**
 * What tensors hold, and users see: it leads to the data, but nothing that walks or copies a tensor finds them behind it, and
 * with them those of all other tensors.
 */
class DataName {
  readonly #data: Data;

  constructor(data: Data) {
    this.#data = data;
  }

  static dataOf(dataId: DataId): Data | undefined {
    return #data in dataId ? dataId.#data : undefined;
  }
}

/** The data of one or more tensors. */
export class Data {
  /** Unless the data have come from another backend of TensorFlow.js, with a name from there. */
  readonly name: DataId = new DataName(this);
  readonly dtype: DataType;
  /** Elements. */
  readonly count: number;
  references: number;
  values: Content["values"];
  isShared: boolean;
  constant: Content["constant"];
  memory: Content["memory"];
  /** Where they begin in `memory`; 0 without it. */
  byteOffset: number;
  parts: Content["parts"];
  pending: Content["pending"];
  /** The places as operands of pending data, which keep what is here after the last reference has ended. */
  consumers = 0;
  /** Bytes of memory that they keep so. */
  heldBytes = 0;
  /** Other forms of the same data on the device, such as a filter with its axes in another order. */
  forms: Map<string, DeviceHandle> | undefined = undefined;
  /** What a kernel has worked out about the last call with these data, to find it again: see `BackplaneBackend.note`. */
  note: object | undefined = undefined;
  /** The list that has it; undefined once it is removed. */
  list: DataList | undefined = undefined;
  previous: Data | undefined = undefined;
  next: Data | undefined = undefined;

  constructor(dtype: DataType, count: number, content: Content, references: number) {
    this.dtype = dtype;
    this.count = count;
    this.references = references;
    this.values = content.values;
    this.isShared = content.isShared ?? false;
    this.constant = content.constant;
    this.memory = content.memory;
    this.byteOffset = content.byteOffset ?? 0;
    this.parts = content.parts;
    this.pending = content.pending;
  }
}

/** The place of data in memory of the device. */
export function operandOf({ handle }: Memory, byteOffset: number): Operand {
  return byteOffset === 0 ? handle : { handle, byteOffset };
}

/**
 * The data of a backend, by what names them. Names lead to them, and they are linked: a table of them took a tenth of a small
 * call.
 */
export class DataList {
  #first: Data | undefined;
  #size = 0;
  /** Those with names of others. */
  readonly #named = new Map<DataId, Data>();

  get size(): number {
    return this.#size;
  }

  find(dataId: DataId): Data | undefined {
    const data = DataName.dataOf(dataId);
    return data !== undefined && data.list === this ? data : this.#named.get(dataId);
  }

  /** `dataId`: a name that somebody else has given. */
  add(data: Data, dataId?: DataId): void {
    data.next = this.#first;
    if (this.#first !== undefined) this.#first.previous = data;
    this.#first = data;
    this.#size++;
    if (dataId === undefined) data.list = this;
    else this.#named.set(dataId, data);
  }

  /** Removes data, which somebody may still name. */
  remove(data: Data, dataId: DataId): void {
    if (data.previous === undefined) this.#first = data.next;
    else data.previous.next = data.next;
    if (data.next !== undefined) data.next.previous = data.previous;
    this.#size--;
    if (data.list === undefined) this.#named.delete(dataId);
    data.previous = undefined;
    data.next = undefined;
    data.list = undefined;
  }

  *[Symbol.iterator](): Generator<Data> {
    let data = this.#first;
    while (data !== undefined) {
      const { next } = data;
      yield data;
      data = next;
    }
  }

  clear(): void {
    for (const data of this) {
      data.previous = undefined;
      data.next = undefined;
      data.list = undefined;
    }
    this.#first = undefined;
    this.#size = 0;
    this.#named.clear();
  }
}
