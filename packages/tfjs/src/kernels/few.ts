import type { BinaryKind } from "@backplane/core";
import type { TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { type DeviceType, elementCount, elementsOf, type HostArray, stridesOf } from "../elements.js";
import type { Walk } from "./moves.js";

/*
 * Kernels on few elements that only the host has, on the host: a call of a device takes longer than all of them. Only moves,
 * sums, differences, products of two numbers, comparisons and choices are here: their results are the same bits on every
 * device, so that they do not depend on sizes. See docs/decisions.
 */

/** Elements of one tensor, and where they go. */
export interface FewMoved {
  readonly from: HostArray;
  readonly walk: Walk;
}

/** The elements of all tensors, if all have the type, and they and the result have few that only the host has. */
export function fewOf(
  backend: BackplaneBackend,
  tensors: readonly TensorInfo[],
  shape: readonly number[],
  dtype: string,
): readonly HostArray[] | undefined {
  if (tensors.length > 0 && backend.atHand(tensors[0]!) === undefined) return undefined;
  if (elementCount(shape) > backend.hostElements) return undefined;
  const all: HostArray[] = [];
  for (const tensor of tensors) {
    const values = tensor.dtype === dtype ? backend.atHand(tensor) : undefined;
    if (values === undefined) return undefined;
    all.push(values);
  }
  return all;
}

/** A new tensor of elements that are moved to their places on the host. `fill`: what is in the other places. */
export function moveFew(
  backend: BackplaneBackend,
  shape: readonly number[],
  dtype: DeviceType,
  moves: readonly FewMoved[],
  fill = 0,
): TensorInfo {
  const values = elementsOf(dtype, "The output").array(elementCount(shape));
  if (fill !== 0) values.fill(fill);
  for (const { from, walk } of moves) walkAlong(from, values, walk);
  return backend.makeOnHost(shape, dtype, values);
}

function walkAlong(from: HostArray, to: HostArray, walk: Walk): void {
  const { shape, inputStrides, inputOffset = 0, outputStrides, outputOffset = 0 } = walk;
  const count = elementCount(shape);
  if (count === 0) return;
  if (inputStrides === undefined && outputStrides === undefined) {
    for (let i = 0; i < count; i++) to[outputOffset + i] = from[inputOffset + i]!;
    return;
  }
  const step = (axis: number, input: number, output: number): void => {
    if (axis === shape.length) {
      to[output] = from[input]!;
      return;
    }
    const extent = shape[axis]!;
    const [inputStep, outputStep] = [inputSteps[axis]!, outputSteps[axis]!];
    if (axis === shape.length - 1)
      for (let i = 0; i < extent; i++) to[output + i * outputStep] = from[input + i * inputStep]!;
    else for (let i = 0; i < extent; i++) step(axis + 1, input + i * inputStep, output + i * outputStep);
  };
  const inputSteps = inputStrides ?? stridesOf(shape);
  const outputSteps = outputStrides ?? stridesOf(shape);
  step(0, inputOffset, outputOffset);
}

/** The elements of a tensor as those of a shape to which it broadcasts, or those that repeat there from end to end. */
function spread(values: HostArray, from: TensorInfo, shape: readonly number[], count: number): HostArray {
  if (values.length === count || values.length === 1 || isSuffix(from.shape, shape)) return values;
  const all = elementsOf(from.dtype, "The input").array(count);
  const own = stridesOf(from.shape);
  const skipped = shape.length - own.length;
  const inputStrides = shape.map((_, axis) =>
    axis < skipped || from.shape[axis - skipped] === 1 ? 0 : own[axis - skipped]!,
  );
  walkAlong(values, all, { shape, inputStrides });
  return all;
}

/** Whether a shape is that of the last axes of another one. */
function isSuffix(part: readonly number[], shape: readonly number[]): boolean {
  const skipped = shape.length - part.length;
  for (let axis = 0; axis < part.length; axis++) if (part[axis] !== shape[skipped + axis]) return false;
  return true;
}

type Computed = "f32" | "i32";

/** What is exact, or rounded once from an exact result: in float64 at first, and then in the array of the result. */
const functions: Partial<Record<BinaryKind, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  equal: (a, b) => (a === b ? 1 : 0),
  notEqual: (a, b) => (a !== b ? 1 : 0),
  less: (a, b) => (a < b ? 1 : 0),
  lessEqual: (a, b) => (a <= b ? 1 : 0),
  greater: (a, b) => (a > b ? 1 : 0),
  greaterEqual: (a, b) => (a >= b ? 1 : 0),
};

const products: Readonly<Record<Computed, (a: number, b: number) => number>> = {
  f32: (a, b) => a * b,
  i32: Math.imul,
};

/** The kind's result of two tensors of one type, on the host. Undefined: it is for the device. */
export function combineFew(
  backend: BackplaneBackend,
  kind: BinaryKind,
  type: Computed,
  [a, b]: readonly [TensorInfo, TensorInfo],
  shape: readonly number[],
  dtype: DeviceType,
): TensorInfo | undefined {
  const first = backend.atHand(a);
  if (first === undefined) return undefined;
  const combine = kind === "mul" ? products[type] : functions[kind];
  const second = combine === undefined ? undefined : backend.atHand(b);
  const count = elementCount(shape);
  if (combine === undefined || second === undefined || count > backend.hostElements) return undefined;
  const x = spread(first, a, shape, count);
  const y = spread(second, b, shape, count);
  const values = elementsOf(dtype, "The output").array(count);
  const [periodX, periodY] = [x.length, y.length];
  for (let i = 0, j = 0, k = 0; i < count; i++) {
    values[i] = combine(x[j]!, y[k]!);
    if (++j === periodX) j = 0;
    if (++k === periodY) k = 0;
  }
  return backend.makeOnHost(shape, dtype, values);
}

/** Elements of `a` where a condition of the same shape holds, and else of `b`, on the host. Undefined: it is for the device. */
export function chooseFew(
  backend: BackplaneBackend,
  condition: TensorInfo,
  a: TensorInfo,
  b: TensorInfo,
): TensorInfo | undefined {
  const chosen = backend.atHand(condition);
  if (chosen === undefined || a.dtype !== b.dtype) return undefined;
  const [x, y] = [backend.atHand(a), backend.atHand(b)];
  if (x === undefined || y === undefined || x.length !== chosen.length || y.length !== chosen.length)
    return undefined;
  const dtype = a.dtype as DeviceType;
  const values = elementsOf(dtype, "The output").array(x.length);
  for (let i = 0; i < values.length; i++) values[i] = (chosen[i] !== 0 ? x : y)[i]!;
  return backend.makeOnHost(a.shape, dtype, values);
}
