import { type DataType, type TensorInfo, util } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { type DeviceType, elementCount, isDeviceType } from "../elements.js";
import { elementwise, mostInputs } from "./elementwise.js";
import { chooseFew } from "./few.js";
import { formula } from "./formula.js";
import type { Call, Kernels } from "./kernel.js";

/** A tensor of one value, which is made where it is needed. */
function constant(
  backend: BackplaneBackend,
  shape: readonly number[],
  dtype: DataType,
  value: number,
): TensorInfo {
  if (dtype === "complex64")
    return backend.complex(backend.make(shape, "float32", value), backend.make(shape, "float32", 0));
  if (dtype === "string")
    return backend.make(
      shape,
      dtype,
      Array.from({ length: elementCount(shape) }, () => new Uint8Array()),
    );
  return backend.make(shape, dtype, elementOf(dtype, value));
}

/** A number as an element of a type. */
export function elementOf(dtype: DataType, value: number): number {
  if (dtype === "bool") return value === 0 ? 0 : 1;
  return dtype === "int32" ? value | 0 : value;
}

interface FillAttributes {
  readonly shape: number[];
  readonly value: number | string;
  readonly dtype?: DataType;
}

export const creationKernels: Kernels = {
  Fill: ({
    attrs: { shape, value, dtype = util.inferDtype(value) },
    backend,
  }: Call<never, FillAttributes>) => {
    if (typeof value === "number" && dtype !== "string") return constant(backend, shape, dtype, value);
    const encoded = util.encodeString(String(value));
    return backend.make(shape, "string", new Array<Uint8Array>(elementCount(shape)).fill(encoded));
  },
  ZerosLike: ({ inputs: { x }, backend }: Call<"x">) => constant(backend, x.shape, x.dtype, 0),
  OnesLike: ({ inputs: { x }, backend }: Call<"x">) => {
    if (x.dtype === "string") throw new Error("OnesLike: x is of type string; allowed: types of numbers");
    return constant(backend, x.shape, x.dtype, 1);
  },
  // Few numbers, and in float64 until the end: they stay on the host until a kernel needs them.
  Range: ({
    attrs: { start, stop, step, dtype },
    backend,
  }: Call<never, { start: number; stop: number; step: number; dtype: "float32" | "int32" }>) => {
    const isEmpty = start === stop || (start < stop && step < 0) || (stop < start && step > 1);
    const count = isEmpty ? 0 : Math.abs(Math.ceil((stop - start) / step));
    // A step of 1 in the direction of the stop is what the default stands for.
    const by = stop < start && step === 1 ? -1 : step;
    const values = util.makeZerosTypedArray(count, dtype);
    for (let i = 0; i < count; i++) values[i] = start + i * by;
    // Not `count`, which may be NaN.
    return backend.make([values.length], dtype, values);
  },
  LinSpace: ({
    attrs: { start, stop, num },
    backend,
  }: Call<never, { start: number; stop: number; num: number }>) => {
    const step = num > 1 ? (stop - start) / (num - 1) : 0;
    return backend.make(
      [num],
      "float32",
      Float32Array.from({ length: num }, (_, i) => start + i * step),
    );
  },
  OneHot: ({
    inputs: { indices },
    attrs: { depth, onValue, offValue, dtype },
    backend,
  }: Call<"indices", { depth: number; onValue: number; offValue: number; dtype: DataType }>) => {
    if (!isDeviceType(dtype)) throw new Error(`OneHot: dtype is ${dtype}; allowed: float32, int32 and bool`);
    const column = { ...indices, shape: [...indices.shape, 1] };
    return elementwise(
      backend,
      dtype as DeviceType,
      [column],
      (e, index) => {
        const type = dtype === "float32" ? "f32" : "i32";
        const isOn = e.binary("equal", e.convert("i32", index!), e.index(-1));
        return e.select(
          isOn,
          e.number(dtype === "float32" ? onValue : elementOf(dtype, onValue), type),
          e.number(dtype === "float32" ? offValue : elementOf(dtype, offValue), type),
        );
      },
      [...indices.shape, depth],
    );
  },
  Select: ({ inputs: { condition, t, e: otherwise }, backend }: Call<"condition" | "t" | "e">) => {
    // A condition of one axis chooses between whole rows.
    const rows = condition.shape.length === 1 && t.shape.length > 1;
    const few = rows ? undefined : chooseFew(backend, condition, t, otherwise);
    if (few !== undefined) return few;
    const shape = rows ? [condition.shape[0]!, ...t.shape.slice(1).map(() => 1)] : condition.shape;
    const isInteger = t.dtype !== "float32" && otherwise.dtype !== "float32";
    return elementwise(
      backend,
      (t.dtype === otherwise.dtype ? t.dtype : isInteger ? "int32" : "float32") as DeviceType,
      [rows ? { ...condition, shape } : condition, t, otherwise],
      select,
      t.shape,
    );
  },
  AddN: ({ inputs, backend }: Call) => sumOf(backend, Object.values(inputs)),
};

const select = formula((e, chosen, a, b) => {
  const type = a!.type === "f32" || b!.type === "f32" ? "f32" : "i32";
  return e.select(e.truth(chosen!), e.convert(type, a!), e.convert(type, b!));
});

/** The sum of tensors of one shape and type. */
function sumOf(backend: BackplaneBackend, tensors: readonly TensorInfo[]): TensorInfo {
  const [first] = tensors as [TensorInfo];
  if (tensors.length === 1) return backend.share(first, first.shape);
  if (first.dtype === "complex64") {
    const parts = tensors.map((tensor) => backend.parts(tensor));
    return backend.complex(
      sumOf(
        backend,
        parts.map(({ real }) => real),
      ),
      sumOf(
        backend,
        parts.map(({ imag }) => imag),
      ),
    );
  }
  const isFloat = tensors.some(({ dtype }) => dtype === "float32");
  const [dtype, type] = isFloat ? (["float32", "f32"] as const) : (["int32", "i32"] as const);
  const now = tensors.slice(0, mostInputs);
  const sum = elementwise(backend, dtype, now, (e, ...nodes) =>
    nodes.map((node) => e.convert(type, node)).reduce((a, b) => e.binary("add", a, b)),
  );
  if (tensors.length <= mostInputs) return sum;
  const total = sumOf(backend, [sum, ...tensors.slice(mostInputs)]);
  backend.release(sum);
  return total;
}
