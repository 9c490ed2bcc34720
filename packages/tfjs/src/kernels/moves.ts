import type { CopyArguments, Operand } from "@backplane/core";
import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend, Output } from "../backend.js";
import { type DeviceType, deviceType, elementCount, elementsOf, stridesOf } from "../elements.js";
import { fewOf, moveFew } from "./few.js";

/* Elements copied by strides: what most kernels of structure, and many others, are made of. */

/** Which elements `copyInto` reads and writes. Offsets and strides count elements. */
export interface Walk {
  readonly shape: readonly number[];
  /** Default: contiguous. */
  readonly inputStrides?: readonly number[] | undefined;
  readonly inputOffset?: number;
  /** Default: contiguous. */
  readonly outputStrides?: readonly number[] | undefined;
  readonly outputOffset?: number;
}

/** Copies elements of one tensor into another, and converts them if it has another type. */
export function copyInto(backend: BackplaneBackend, input: TensorInfo, output: Output, walk: Walk): void {
  const { shape, inputStrides, inputOffset = 0, outputStrides, outputOffset = 0 } = walk;
  if (elementCount(shape) === 0) return;
  const [from, to] = [elementsOf(input.dtype, "The input"), elementsOf(output.dtype, "The output")];
  const place = backend.place(input);
  const call: { -readonly [Name in keyof CopyArguments]: CopyArguments[Name] } = {
    shape,
    input: movedBy(place, inputOffset * from.bytes),
    output:
      outputOffset === 0 ? output.handle : { handle: output.handle, byteOffset: outputOffset * to.bytes },
    dtype: from.dtype,
    outputDtype: to.dtype,
  };
  if (inputStrides !== undefined) call.inputStrides = inputStrides;
  if (outputStrides !== undefined) call.outputStrides = outputStrides;
  backend.compute.copy(call);
}

/** A place so many bytes further on. */
export function movedBy(place: Operand, bytes: number): Operand {
  if (bytes === 0) return place;
  if (typeof place === "object") return { handle: place.handle, byteOffset: place.byteOffset + bytes };
  return { handle: place, byteOffset: bytes };
}

/** A new tensor of elements of another one, by strides. */
export function copyOf(
  backend: BackplaneBackend,
  input: TensorInfo,
  outputShape: readonly number[],
  walk: Walk,
  dtype: DeviceType = input.dtype as DeviceType,
): TensorInfo {
  const few = fewOf(backend, [input], outputShape, dtype);
  if (few !== undefined) return moveFew(backend, outputShape, dtype, [{ from: few[0]!, walk }]);
  const output = backend.output(outputShape, dtype);
  copyInto(backend, input, output, walk);
  return output;
}

export function transpose(backend: BackplaneBackend, x: TensorInfo, perm: readonly number[]): TensorInfo {
  const strides = stridesOf(x.shape);
  const shape = perm.map((axis) => x.shape[axis]!);
  return copyOf(backend, x, shape, { shape, inputStrides: perm.map((axis) => strides[axis]!) });
}

export function slice(
  backend: BackplaneBackend,
  x: TensorInfo,
  begin: readonly number[],
  size: readonly number[],
): TensorInfo {
  const strides = stridesOf(x.shape);
  let inputOffset = 0;
  for (let axis = 0; axis < begin.length; axis++) inputOffset += begin[axis]! * strides[axis]!;
  if (!isRun(size, x.shape))
    return copyOf(backend, x, size, { shape: size, inputStrides: strides, inputOffset });
  const few = backend.atHand(x);
  if (few !== undefined)
    return moveFew(backend, size, x.dtype as DeviceType, [
      { from: few, walk: { shape: [elementCount(size)], inputOffset } },
    ]);
  const part = backend.part(x, inputOffset, size);
  return part ?? copyOf(backend, x, size, { shape: [elementCount(size)], inputOffset });
}

/** Whether a part of `size` of a tensor lies in one piece: the axes after the first of more than one element are whole. */
function isRun(size: readonly number[], shape: readonly number[]): boolean {
  let first = 0;
  while (first < size.length && size[first] === 1) first++;
  for (let axis = first + 1; axis < size.length; axis++) if (size[axis] !== shape[axis]) return false;
  return true;
}

/** The tensor with a border of constants. */
export function pad(
  backend: BackplaneBackend,
  x: TensorInfo,
  paddings: readonly (readonly [number, number])[],
  value: number,
): TensorInfo {
  const shape = x.shape.map((extent, axis) => extent + paddings[axis]![0] + paddings[axis]![1]);
  const dtype = x.dtype as DeviceType;
  const outputStrides = stridesOf(shape);
  const outputOffset = paddings.reduce((offset, [before], axis) => offset + before * outputStrides[axis]!, 0);
  const walk = { shape: x.shape, outputStrides, outputOffset };
  const few = fewOf(backend, [x], shape, dtype);
  if (few !== undefined) return moveFew(backend, shape, dtype, [{ from: few[0]!, walk }], value);
  const output = backend.output(shape, dtype, { zero: value === 0 });
  if (value !== 0) backend.compute.fill(output.handle, value, elementCount(shape), deviceType(dtype));
  copyInto(backend, x, output, walk);
  return output;
}

/** Tensors side by side along an axis, in the type of the first one. */
export function concat(backend: BackplaneBackend, tensors: readonly TensorInfo[], axis: number): TensorInfo {
  const shape = backend_util.computeOutShape(
    tensors.map((tensor) => tensor.shape),
    axis,
  );
  const dtype = tensors[0]!.dtype as DeviceType;
  const outputStrides = stridesOf(shape);
  let outputOffset = 0;
  const walks: Walk[] = [];
  for (const tensor of tensors) {
    walks.push(
      isRun(tensor.shape, shape)
        ? { shape: [elementCount(tensor.shape)], outputOffset }
        : { shape: tensor.shape, outputStrides, outputOffset },
    );
    outputOffset += tensor.shape[axis]! * outputStrides[axis]!;
  }
  const few = fewOf(backend, tensors, shape, dtype);
  if (few !== undefined) {
    const moves = few.map((from, i) => ({ from, walk: walks[i]! }));
    return moveFew(backend, shape, dtype, moves);
  }
  const output = backend.output(shape, dtype);
  for (let i = 0; i < tensors.length; i++) copyInto(backend, tensors[i]!, output, walks[i]!);
  return output;
}
