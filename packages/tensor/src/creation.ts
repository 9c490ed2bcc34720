import {
  type ComputeBackend,
  type DType,
  elementTypes,
  encodeBfloat16,
  encodeFloat16,
  upload,
} from "@backplane/core";
import { checkBackend, checkDtype, described, listed, refuse } from "./errors.js";
import { defer } from "./lazy/fusion.js";
import { concatenate as concatenateOperation } from "./ops/views.js";
import type { Nested } from "./printing.js";
import { scope } from "./scope.js";
import { apply, checkTensor, type Tensor, wrap } from "./tensor.js";
import { Storage, undoneOnFailure, Value } from "./value.js";
import { axisOf, checkShape, type Shape, sizeOf } from "./view/shape.js";

export interface TensorOptions {
  /** Of the elements, row by row. Default: that of nested arrays; one axis for a typed array. */
  readonly shape?: Shape;
  /** Default: that of a typed array, else f32. */
  readonly dtype?: DType;
}

/** A number, nested arrays of numbers, or a typed array. */
export type TensorData = Nested | readonly TensorData[] | ArrayBufferView<ArrayBufferLike>;

/** Element types of typed arrays, by the name of the class: Float16Array is not everywhere. */
const typesOfArrays: Readonly<Record<string, DType>> = {
  Float32Array: "f32",
  Float16Array: "f16",
  Int32Array: "i32",
  Uint32Array: "u32",
  Uint8Array: "u8",
  Uint8ClampedArray: "u8",
};

/** How numbers become bytes of each type. Integers must be whole numbers of the type. */
const encoders: Readonly<Record<DType, (values: ArrayLike<number>) => ArrayBufferView<ArrayBuffer>>> = {
  f32: (values) => Float32Array.from(values),
  f16: encodeFloat16,
  bf16: encodeBfloat16,
  i32: (values) => Int32Array.from(values),
  u32: (values) => Uint32Array.from(values),
  u8: (values) => Uint8Array.from(values),
};

/** Returns a tensor with these elements: `tensor(backend, [[1, 2], [3, 4]])`. They are copied at once. */
export function tensor(backend: ComputeBackend, data: TensorData, options: TensorOptions = {}): Tensor {
  checkBackend("tensor", backend);
  const { dtype, shape, bytes } = hostData(data, options);
  const value = new Value(backend, dtype, shape);
  value.storage = new Storage(backend, upload(backend, bytes));
  return wrap(value);
}

interface HostData {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly bytes: ArrayBufferView<ArrayBufferLike>;
}

function hostData(data: TensorData, { shape: given, dtype: wanted }: TensorOptions): HostData {
  if (!ArrayBuffer.isView(data)) {
    const own = shapeOf(data);
    const values: number[] = [];
    collect(data, own, 0, values);
    const dtype = wanted ?? "f32";
    return { dtype, shape: fitting(given ?? own, values.length), bytes: encoded(values, dtype) };
  }
  const name = Object.prototype.toString.call(data).slice(8, -1);
  const type = typesOfArrays[name];
  if (type === undefined)
    refuse(
      "tensor",
      "data",
      `is a ${name}; allowed: ${Object.keys(typesOfArrays).join(", ")} and nested arrays`,
    );
  const numbers = data as unknown as ArrayLike<number>;
  const dtype = wanted ?? type;
  const shape = fitting(given ?? [numbers.length], numbers.length);
  return { dtype, shape, bytes: dtype === type ? data : encoded(numbers, dtype) };
}

function encoded(values: ArrayLike<number>, dtype: DType): ArrayBufferView<ArrayBuffer> {
  const encoder = encoders[checkDtype("tensor", dtype)];
  const { range } = elementTypes[dtype];
  if (range !== undefined)
    for (let i = 0; i < values.length; i++) {
      const value = values[i]!;
      if (!Number.isInteger(value) || value < range[0] || value > range[1])
        refuse(
          "tensor",
          `data[${i}]`,
          `is ${value}; allowed for ${dtype}: whole numbers from ${range[0]} to ${range[1]}`,
        );
    }
  return encoder(values);
}

function shapeOf(data: TensorData): number[] {
  const shape: number[] = [];
  for (let level: unknown = data; Array.isArray(level); level = level[0]) shape.push(level.length);
  return shape;
}

function collect(data: unknown, shape: Shape, axis: number, values: number[]): void {
  if (axis === shape.length) {
    if (typeof data !== "number")
      refuse("tensor", "data", `holds ${typeof data} among numbers; allowed: nested arrays of one shape`);
    values.push(data);
    return;
  }
  if (!Array.isArray(data) || data.length !== shape[axis])
    refuse("tensor", "data", `does not have the shape ${listed(shape)} of its first parts everywhere`);
  for (const part of data) collect(part, shape, axis + 1, values);
}

function fitting(shape: Shape, count: number): Shape {
  checkShape("tensor", shape);
  if (sizeOf(shape) !== count)
    refuse("tensor", "shape", `is ${listed(shape)}; allowed: shapes of the ${count} elements`);
  return shape;
}

/** Returns a tensor of one number, repeated. Default type: f32. */
export function full(backend: ComputeBackend, shape: Shape, number: number, dtype: DType = "f32"): Tensor {
  checkBackend("full", backend);
  checkShape("full", shape);
  checkDtype("full", dtype);
  const value = undoneOnFailure(() => {
    const made = Value.allocate(backend, dtype, shape);
    backend.fill(made.storage!.handle, number, made.size, dtype);
    return made;
  });
  return wrap(value);
}

export function zeros(backend: ComputeBackend, shape: Shape, dtype: DType = "f32"): Tensor {
  checkBackend("zeros", backend);
  return wrap(Value.allocate(backend, checkDtype("zeros", dtype), checkShape("zeros", shape), true));
}

export function ones(backend: ComputeBackend, shape: Shape, dtype: DType = "f32"): Tensor {
  return full(backend, shape, 1, dtype);
}

/** Returns the numbers 0, 1, ..., count - 1. */
export function arange(backend: ComputeBackend, count: number, dtype: DType = "i32"): Tensor {
  checkBackend("arange", backend);
  checkShape("arange", [count], "count");
  const like = new Value(backend, "i32", [count]);
  return scope(() => converted(wrap(defer(like, { form: "index", axis: 0 }, "i32", [count], [])), dtype));
}

/** Returns rows of zeros with a 1 at each index (i32): the shape of the indices with another axis of `classes` places. */
export function oneHot(indices: Tensor, classes: number, dtype: DType = "f32"): Tensor {
  checkTensor("oneHot", "indices", indices);
  return scope(() => converted(indices.unsqueeze(-1).equal(arange(indices.backend, classes)), dtype));
}

function converted(made: Tensor, dtype: DType): Tensor {
  return dtype === made.dtype ? made : made.cast(dtype);
}

/** Tensors one after the other along an axis. */
export function concatenate(parts: readonly Tensor[], axis = 0): Tensor {
  checkParts("concatenate", parts);
  return apply(concatenateOperation, parts, { axis: axisOf("concatenate", axis, parts[0]!.rank) });
}

/** Tensors of one shape along a new axis. */
export function stack(parts: readonly Tensor[], axis = 0): Tensor {
  checkParts("stack", parts);
  const place = axisOf("stack", axis, parts[0]!.rank + 1);
  return scope(() =>
    concatenate(
      parts.map((part) => part.unsqueeze(place)),
      place,
    ),
  );
}

function checkParts(operation: string, parts: readonly Tensor[]): void {
  if (!Array.isArray(parts) || parts.length === 0)
    refuse(
      operation,
      "parts",
      `is ${Array.isArray(parts) ? "empty" : described(parts)}; allowed: at least one tensor`,
    );
  for (const [i, part] of parts.entries()) checkTensor(operation, `parts[${i}]`, part);
}
