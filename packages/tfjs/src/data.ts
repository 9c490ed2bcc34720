import type { DeviceHandle } from "@backplane/core";
import type { BackendValues, DataType, TensorInfo } from "@tensorflow/tfjs-core";

/** Where the data of a tensor are: at least one of these is there. */
export interface Content {
  /** On the host: given by the user, or read from the device before. */
  readonly values?: BackendValues | undefined;
  /** All elements have this value. */
  readonly constant?: number;
  /** On the device. */
  readonly handle?: DeviceHandle;
  /** Of complex64: each of them has a reference of its own. */
  readonly parts?: { readonly real: TensorInfo; readonly imag: TensorInfo };
}

/** The data of one or more tensors. */
export class Data {
  readonly dtype: DataType;
  /** Elements. */
  readonly count: number;
  references: number;
  values: Content["values"];
  readonly constant: Content["constant"];
  handle: Content["handle"];
  readonly parts: Content["parts"];
  /** Other forms of the same data on the device, such as a filter with its axes in another order. */
  forms: Map<string, DeviceHandle> | undefined;

  constructor(dtype: DataType, count: number, content: Content, references: number) {
    this.dtype = dtype;
    this.count = count;
    this.references = references;
    this.values = content.values;
    this.constant = content.constant;
    this.handle = content.handle;
    this.parts = content.parts;
    this.forms = undefined;
  }
}
