import { mapLimits, type Operand } from "@backplane/core";
import type { TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend, Output } from "../backend.js";
import { type DeviceType, elementCount } from "../elements.js";
import { deferred } from "./deferred.js";
import {
  type Build,
  type BuildAll,
  broadcastShape,
  builtFor,
  Formula,
  formula,
  listed,
  type Numbers,
  noNumbers,
  numberOf,
} from "./formula.js";

/**
 * A new tensor, each of whose elements is the value of an expression of the inputs' elements at its place. Inputs
 * broadcast to the shape, which is that of all inputs by default. A float that becomes an integer loses its fraction;
 * a number that becomes bool is true unless it is 0.
 */
export function elementwise(
  backend: BackplaneBackend,
  dtype: DeviceType,
  inputs: readonly TensorInfo[],
  build: Build | Formula,
  shape: readonly number[] = broadcastShape(inputs),
  numbers: Numbers = noNumbers,
): TensorInfo {
  if (build instanceof Formula) {
    const built = builtFor(backend, [dtype], inputs, build, shape.length, numbers);
    if (!built.counts) return deferred(backend, dtype, built, inputs, shape, numbers.values);
  }
  const all = build instanceof Formula ? build : listed(build);
  return compute(backend, [dtype], inputs, all, shape, numbers)[0]!;
}

/** As `elementwise`, with several results. */
export function elementwiseOutputs(
  backend: BackplaneBackend,
  dtypes: readonly DeviceType[],
  inputs: readonly TensorInfo[],
  build: BuildAll | Formula,
  shape: readonly number[] = broadcastShape(inputs),
): TensorInfo[] {
  return compute(backend, dtypes, inputs, build, shape, noNumbers);
}

/** Replaces a tensor of the kernel under way, whose shape all inputs broadcast to, by the value of an expression. */
export function elementwiseInPlace(
  backend: BackplaneBackend,
  tensor: Output,
  others: readonly TensorInfo[],
  build: Formula,
  numbers: Numbers = noNumbers,
): void {
  compute(backend, [tensor.dtype as DeviceType], [tensor, ...others], build, tensor.shape, numbers, [tensor]);
}

/** `results`: what is written. Default: new tensors. */
function compute(
  backend: BackplaneBackend,
  dtypes: readonly DeviceType[],
  inputs: readonly TensorInfo[],
  build: BuildAll | Formula,
  shape: readonly number[],
  numbers: Numbers,
  results?: Output[],
): Output[] {
  const built = builtFor(backend, dtypes, inputs, build, shape.length, numbers);
  const count = elementCount(shape);
  const parameters: number[] = [];
  const places: Operand[] = [];
  const inputShapes: (readonly number[])[] = [];
  // As many elements as the result has are in its order: there is nothing to broadcast.
  let isFlat = !built.counts;
  for (let i = 0; i < inputs.length; i++) {
    const input = inputs[i]!;
    const number = numberOf(backend, input);
    if (number !== undefined) parameters.push(number);
    else {
      places.push(backend.place(input));
      inputShapes.push(input.shape);
      if (elementCount(input.shape) !== count) isFlat = false;
    }
  }
  for (let i = 0; i < numbers.values.length; i++) parameters.push(numbers.values[i]!);
  for (let i = 0; i < built.rest.length; i++) parameters.push(built.rest[i]!);
  const outputs = results ?? dtypes.map((dtype) => backend.output(shape, dtype));
  const { inputTypes, nodes, results: values, outputTypes } = built;
  const call = {
    shape: isFlat ? [count] : shape,
    inputs: places,
    inputTypes,
    parameters,
    nodes,
    results: values,
    outputs: outputs.map(({ handle }) => handle),
    outputTypes,
  };
  if (isFlat) backend.compute.map(call);
  else backend.compute.map({ ...call, inputShapes });
  return outputs;
}

/** The most inputs that one expression may have. */
export const mostInputs: number = mapLimits.inputs;

const same = formula((_, node) => node);

/** The tensor as another type, made of it unless it has that type: the caller releases it, if it is not the same. */
export function asType(backend: BackplaneBackend, x: TensorInfo, dtype: DeviceType): TensorInfo {
  if (x.dtype === dtype) return backend.share(x, x.shape);
  return elementwise(backend, dtype, [x], same);
}

/** The tensor as another type: itself if it has that type, and otherwise made of it, to be released by a composition. */
export function typed(
  backend: BackplaneBackend,
  made: (tensor: TensorInfo) => TensorInfo,
  x: TensorInfo,
  dtype: DeviceType,
): TensorInfo {
  return x.dtype === dtype ? x : made(elementwise(backend, dtype, [x], same));
}
