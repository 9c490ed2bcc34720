import type { BinaryKind, NumberReduceKind, UnaryKind } from "@backplane/core";
import type { TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import {
  type DeviceType,
  elementCount,
  elementsOf,
  type HostArray,
  resultArray,
  stridesOf,
} from "../elements.js";
import type { Walk } from "./moves.js";

/*
 * Kernels on few elements that only the host has, on the host: a call of a device takes longer than all of them. Moves, choices,
 * comparisons, sums, differences and products of two numbers give the same bits on every device. Functions, quotients, and sums of
 * several numbers are computed in float64 and rounded once: a device may give other last bits. See docs/decisions.
 */

/**
 * What an element of a function counts for: more of them than the default limit allows then take longer here than a call of the
 * CPU backend does. A softmax of 64 took as long in both, and is for the device.
 */
const functionWeight = 16;

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
  const values = resultArray(dtype, elementCount(shape));
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

/** In float64, and then rounded by the array of the result. */
const functions: Partial<Record<BinaryKind, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  max: Math.max,
  min: Math.min,
  equal: (a, b) => (a === b ? 1 : 0),
  notEqual: (a, b) => (a !== b ? 1 : 0),
  less: (a, b) => (a < b ? 1 : 0),
  lessEqual: (a, b) => (a <= b ? 1 : 0),
  greater: (a, b) => (a > b ? 1 : 0),
  greaterEqual: (a, b) => (a >= b ? 1 : 0),
};

/** What differs between types; undefined where it is for the device. */
const functionsOfType: Readonly<Record<Computed, typeof functions>> = {
  f32: { ...functions, mul: (a, b) => a * b, div: (a, b) => a / b },
  i32: { ...functions, mul: Math.imul },
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
  const combine = functionsOfType[type][kind];
  const second = combine === undefined ? undefined : backend.atHand(b);
  const count = elementCount(shape);
  if (combine === undefined || second === undefined || count > backend.hostElements) return undefined;
  const x = spread(first, a, shape, count);
  const y = spread(second, b, shape, count);
  const values = resultArray(dtype, count);
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
  const values = resultArray(dtype, x.length);
  for (let i = 0; i < values.length; i++) values[i] = (chosen[i] !== 0 ? x : y)[i]!;
  return backend.makeOnHost(a.shape, dtype, values);
}

/** A function of one number, in float64. What kernels pass on are the attributes of the call. */
export type HostFunction = (x: number, ...numbers: number[]) => number;

/** Those of floats. The others are for the device. */
export const floatFunctions: Partial<Record<UnaryKind, HostFunction>> = {
  abs: Math.abs,
  acos: Math.acos,
  acosh: Math.acosh,
  asin: Math.asin,
  asinh: Math.asinh,
  atan: Math.atan,
  atanh: Math.atanh,
  ceil: Math.ceil,
  cos: Math.cos,
  cosh: Math.cosh,
  exp: Math.exp,
  expm1: Math.expm1,
  floor: Math.floor,
  log: Math.log,
  log1p: Math.log1p,
  neg: (x) => -x,
  reciprocal: (x) => 1 / x,
  relu: (x) => Math.max(x, 0),
  relu6: (x) => Math.min(Math.max(x, 0), 6),
  rsqrt: (x) => 1 / Math.sqrt(x),
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  sin: Math.sin,
  sinh: Math.sinh,
  softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  sqrt: Math.sqrt,
  square: (x) => x * x,
  tan: Math.tan,
  tanh: Math.tanh,
};

/** Those of whole numbers, which wrap around in the array of the result. */
export const wholeFunctions: typeof floatFunctions = {
  abs: Math.abs,
  neg: (x) => -x,
  square: (x) => Math.imul(x, x),
};

/** A function of each element, on the host. Undefined: it is for the device. */
export function mapFew(
  backend: BackplaneBackend,
  x: TensorInfo,
  dtype: "float32" | "int32" | "bool",
  compute: HostFunction | undefined,
  numbers: readonly number[] = none,
): TensorInfo | undefined {
  const given = compute === undefined ? undefined : backend.atHand(x);
  if (compute === undefined || given === undefined || isMany(backend, given.length)) return undefined;
  const values = resultArray(dtype, given.length);
  // A device takes them as f32, and refuses what is not finite then.
  const [first = 0, second = 0] = dtype === "float32" ? numbers.map(Math.fround) : numbers;
  if (!Number.isFinite(first) || !Number.isFinite(second)) return undefined;
  // A whole number becomes a float before.
  if (dtype === "float32")
    for (let i = 0; i < values.length; i++) values[i] = compute(Math.fround(given[i]!), first, second);
  else for (let i = 0; i < values.length; i++) values[i] = compute(given[i]!, first, second);
  return backend.makeOnHost(x.shape, dtype, values);
}

const none: readonly number[] = [];

function isMany(backend: BackplaneBackend, count: number): boolean {
  return functionWeight * count > backend.hostElements;
}

/** Elements of a tensor by lines: element i of line (o, n) is at (o * extent + i) * inner + n. */
interface FewLines {
  readonly values: HostArray;
  readonly extent: number;
  readonly inner: number;
}

/** The lines along neighbouring axes. Undefined if they are not neighbours, or empty, or for the device. */
function linesOf(backend: BackplaneBackend, x: TensorInfo, axes: readonly number[]): FewLines | undefined {
  const values = x.dtype === "bool" ? undefined : backend.atHand(x);
  if (values === undefined || values.length === 0) return undefined;
  const { shape } = x;
  const first = axes[0] ?? shape.length;
  let extent = 1;
  for (let i = 0; i < axes.length; i++) {
    if (axes[i] !== first + i) return undefined;
    extent *= shape[first + i]!;
  }
  let inner = 1;
  for (let axis = first + axes.length; axis < shape.length; axis++) inner *= shape[axis]!;
  return { values, extent, inner };
}

type Reduce = (lines: FewLines, first: number) => number;

const reductions: Readonly<Record<"float32" | "int32", Partial<Record<NumberReduceKind, Reduce>>>> = {
  float32: {
    sum: sumOf,
    mean: (lines, first) => sumOf(lines, first) / lines.extent,
    max: (lines, first) => extremeOf(lines, first, Math.max),
    min: (lines, first) => extremeOf(lines, first, Math.min),
  },
  int32: {
    sum: wholeSumOf,
    max: (lines, first) => extremeOf(lines, first, Math.max),
    min: (lines, first) => extremeOf(lines, first, Math.min),
  },
};

function sumOf({ values, extent, inner }: FewLines, first: number): number {
  let sum = 0;
  for (let i = 0, at = first; i < extent; i++, at += inner) sum += values[at]!;
  return sum;
}

function wholeSumOf({ values, extent, inner }: FewLines, first: number): number {
  let sum = 0;
  for (let i = 0, at = first; i < extent; i++, at += inner) sum = (sum + values[at]!) | 0;
  return sum;
}

function extremeOf(
  { values, extent, inner }: FewLines,
  first: number,
  of: (a: number, b: number) => number,
): number {
  let found = values[first]!;
  for (let i = 1, at = first + inner; i < extent; i++, at += inner) found = of(found, values[at]!);
  return found;
}

/** One element for each line along some axes, in ascending order, on the host. Undefined: it is for the device. */
export function reduceFew(
  backend: BackplaneBackend,
  kind: NumberReduceKind,
  x: TensorInfo,
  axes: readonly number[],
  shape: readonly number[],
): TensorInfo | undefined {
  const { dtype } = x;
  const reduce = dtype === "float32" || dtype === "int32" ? reductions[dtype][kind] : undefined;
  return reduce === undefined ? undefined : foldFew(backend, x, axes, shape, dtype as Folded, reduce);
}

type Folded = "float32" | "int32";

function foldFew(
  backend: BackplaneBackend,
  x: TensorInfo,
  axes: readonly number[],
  shape: readonly number[],
  dtype: Folded,
  reduce: Reduce,
): TensorInfo | undefined {
  const lines = linesOf(backend, x, axes);
  if (lines === undefined) return undefined;
  const { extent, inner } = lines;
  const results = resultArray(dtype, lines.values.length / extent);
  for (let i = 0, first = 0, within = 0; i < results.length; i++) {
    results[i] = reduce(lines, first + within);
    if (++within === inner) {
      within = 0;
      first += extent * inner;
    }
  }
  return backend.makeOnHost(shape, dtype, results);
}

/** The first place of the extreme of each line, on the host. A NaN is never it. Undefined: it is for the device. */
export function argReduceFew(
  backend: BackplaneBackend,
  kind: "argMax" | "argMin",
  x: TensorInfo,
  axis: number,
  shape: readonly number[],
): TensorInfo | undefined {
  return foldFew(backend, x, x.shape.length === 0 ? none : [axis], shape, "int32", places[kind]);
}

const places = {
  argMax: (lines: FewLines, first: number) => placeOf(lines, first, 1),
  argMin: (lines: FewLines, first: number) => placeOf(lines, first, -1),
} as const;

function placeOf({ values, extent, inner }: FewLines, first: number, sign: number): number {
  let largest = Number.NEGATIVE_INFINITY;
  let place = 0;
  for (let i = 0, at = first; i < extent; i++, at += inner) {
    const value = sign * values[at]!;
    if (value > largest) {
      largest = value;
      place = i;
    }
  }
  return place;
}
