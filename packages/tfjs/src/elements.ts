import type { DType } from "@backplane/core";
import type { DataType } from "@tensorflow/tfjs-core";

/** Types of tensors whose elements can lie on a device. complex64 is two of float32, and strings stay on the host. */
export type DeviceType = "float32" | "int32" | "bool";

/** Their element types on the device. */
export type DeviceElementType = Extract<DType, "f32" | "i32" | "u8">;

/** Elements of a tensor on the host. */
export type HostArray = Float32Array | Int32Array | Uint8Array;

/** What there is to know about a type of tensors on a device. */
interface DeviceElements {
  readonly dtype: DeviceElementType;
  readonly bytes: number;
  /** A new array of the host with `count` zeros. */
  array(count: number): Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;
  /** `count` elements of memory from a byte on. */
  view(memory: ArrayBuffer, byteOffset: number, count: number): HostArray;
  /** The values as an array of the type: itself if it is one. */
  arrayOf(values: ArrayLike<number>): HostArray;
}

const types: Readonly<Record<DeviceType, DeviceElements>> = {
  float32: {
    dtype: "f32",
    bytes: 4,
    array: (count) => new Float32Array(count),
    view: (memory, byteOffset, count) => new Float32Array(memory, byteOffset, count),
    arrayOf: (values) => (values instanceof Float32Array ? values : Float32Array.from(values)),
  },
  int32: {
    dtype: "i32",
    bytes: 4,
    array: (count) => new Int32Array(count),
    view: (memory, byteOffset, count) => new Int32Array(memory, byteOffset, count),
    arrayOf: (values) => (values instanceof Int32Array ? values : Int32Array.from(values)),
  },
  bool: {
    dtype: "u8",
    bytes: 1,
    array: (count) => new Uint8Array(count),
    view: (memory, byteOffset, count) => new Uint8Array(memory, byteOffset, count),
    arrayOf: (values) => (values instanceof Uint8Array ? values : Uint8Array.from(values, Number)),
  },
};

/** Engines keep so many bytes of an array beside it. To make memory for more takes 0.6 us and more, and a view 0.1 to 0.2. */
const besideArray = 64;
/** Views of shared memory have so many bytes at most. */
const mostShared = 1024;
const sharedBytes = 8 * mostShared;
let shared = new ArrayBuffer(sharedBytes);
let sharedEnd = 0;

/** Whether a result of so many bytes is a view of memory that others have parts of, too. */
export function isShared(bytes: number): boolean {
  return bytes > besideArray && bytes <= mostShared;
}

/** A new array of the host with `count` zeros, for `BackplaneBackend.makeOnHost`: it may be a view of memory of several results. */
export function resultArray(dtype: DeviceType, count: number): HostArray {
  const elements = elementsOf(dtype, "The output");
  const bytes = count * elements.bytes;
  if (!isShared(bytes)) return elements.array(count);
  if (sharedEnd + bytes > sharedBytes) {
    shared = new ArrayBuffer(sharedBytes);
    sharedEnd = 0;
  }
  const begin = sharedEnd;
  sharedEnd += Math.ceil(bytes / 4) * 4;
  return elements.view(shared, begin, count);
}

export function isDeviceType(dtype: DataType): dtype is DeviceType {
  return dtype in types;
}

/** Throws if elements of the type cannot lie on a device. `what` begins the message. */
export function elementsOf(dtype: DataType, what: string): DeviceElements {
  const found: DeviceElements | undefined = types[dtype as DeviceType];
  if (found === undefined)
    throw new Error(`${what} is of type ${dtype}; allowed: ${Object.keys(types).join(", ")}`);
  return found;
}

/** The element type on the device. */
export function deviceType(dtype: DataType): DeviceElementType {
  return elementsOf(dtype, "The tensor").dtype;
}

export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (let axis = 0; axis < shape.length; axis++) count *= shape[axis]!;
  return count;
}

/** Elements from one place to the next along each axis of a contiguous tensor. */
export function stridesOf(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length).fill(1);
  for (let axis = shape.length - 2; axis >= 0; axis--) strides[axis] = strides[axis + 1]! * shape[axis + 1]!;
  return strides;
}
