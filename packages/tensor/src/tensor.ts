import {
  type BinaryKind,
  type ComputeBackend,
  type DType,
  decodeBfloat16,
  decodeFloat16,
  dtypeBytes,
  type Operand,
  type ScanKind,
  type UnaryKind,
  upload,
} from "@backplane/core";
import { checkBackend, checkDtype, described, listed, refuse } from "./errors.js";
import { contiguous, realize } from "./lazy/fusion.js";
import { convert, elementwise, isConvertedInPlace, type NumberOperands, select } from "./ops/elementwise.js";
import { gather, scatterAdd } from "./ops/indexing.js";
import { softmaxes } from "./ops/networks.js";
import type { TensorOperation } from "./ops/operation.js";
import { linear, matmul } from "./ops/products.js";
import {
  argReduce,
  type ReductionAttributes,
  reductions,
  type ScanAttributes,
  scans,
} from "./ops/reductions.js";
import { cast, expand, permute, place, reshape, slice } from "./ops/views.js";
import { format, type Nested, nested } from "./printing.js";
import { isTracked, record } from "./recorder.js";
import { Scoped, scope } from "./scope.js";
import { Storage, undoneOnFailure, Value } from "./value.js";
import { axesOf, axisOf, checkShape, type Shape, sameShape } from "./view/shape.js";
import { reshaped, type Span, type TensorView } from "./view/tensor-view.js";

export type ReductionOptions = Pick<ReductionAttributes, "keepAxes">;
export type ScanOptions = Partial<Pick<ScanAttributes, "exclusive" | "reverse">>;

/** Typed arrays in which elements of each type reach the host; those of 16 bits are widened to f32. */
export type HostArray = Float32Array | Int32Array | Uint32Array | Uint8Array;

/**
 * An array of numbers on a backend. Its methods return new tensors and change none. `assign` alone changes what a tensor
 * holds, for parameters that are trained.
 *
 * - Elementwise operations wait until something needs their results, and then run together, as one `map`.
 * - Views (reshape, transpose, slice, ...) share memory with their origin where strides allow it.
 * - Operands broadcast as in NumPy, and have one element type: nothing is converted unasked. Numbers stand for tensors
 *   in arithmetic.
 * - A tensor is freed by `dispose`, by `using`, by the end of its `scope`, or at last by the garbage collector.
 * - Reading is asynchronous; everything else returns at once.
 */
export class Tensor extends Scoped {
  #value: Value;

  /** Takes over one reference to the value. */
  constructor(value: Value) {
    super();
    this.#value = value;
    this.enter();
  }

  /** What the tensor holds. Throws `DISPOSED` if that was given up. */
  get value(): Value {
    if (this.isDisposed) refuse("tensor", "value", "was disposed of", "DISPOSED");
    return this.#value;
  }

  get shape(): Shape {
    return this.#value.shape;
  }

  get dtype(): DType {
    return this.#value.dtype;
  }

  get backend(): ComputeBackend {
    return this.#value.backend;
  }

  /** Number of elements. */
  get size(): number {
    return this.#value.size;
  }

  /** Number of axes. */
  get rank(): number {
    return this.#value.shape.length;
  }

  /** Where the elements are in their memory. Computes them if they are not there yet. */
  get view(): TensorView {
    realize(this.value);
    return this.value.view;
  }

  /**
   * Where the elements are, one after the other, for calls of the backend. Computes or copies them first if they are not
   * there like that. Valid until the tensor is disposed of or changed.
   */
  get operand(): Operand {
    return contiguous(this.value);
  }

  // Reading

  /** The elements in a typed array, row by row. */
  async data(): Promise<HostArray> {
    const { value } = this;
    const { backend, dtype, size } = value;
    const bytes = new ArrayBuffer(size * dtypeBytes[dtype]);
    value.retain();
    try {
      await backend.copyDtoH(bytes, contiguous(value));
    } finally {
      value.release();
    }
    return readers[dtype](bytes);
  }

  /** The elements as nested arrays, one level for each axis; a number if there is no axis. */
  async toArray(): Promise<Nested> {
    const { shape } = this;
    return nested(await this.data(), shape);
  }

  /** The only element. Throws `INVALID_ARGUMENT` if there is not just one. */
  async item(): Promise<number> {
    if (this.size !== 1) refuse("item", "tensor", `has shape ${listed(this.shape)}; allowed: one element`);
    return (await this.data())[0]!;
  }

  /** A text with the elements, for people; long axes are shortened. */
  async print(): Promise<string> {
    const { shape, dtype } = this;
    return format(await this.data(), shape, dtype);
  }

  /** The type and the shape; see `print` for the elements. */
  override toString(): string {
    return `Tensor ${this.dtype} ${listed(this.shape)}${this.isDisposed ? ", disposed of" : ` on ${this.backend.name}`}`;
  }

  // Memory

  /** Computes the elements now, if they are not there yet. Returns the tensor. */
  compute(): this {
    realize(this.value);
    return this;
  }

  /** Returns a tensor with the same elements, of which gradients know nothing. */
  detach(): Tensor {
    // Another value, as the tape tells values apart.
    return wrap(reshape.forward([this.value], { shape: this.shape }, false) as Value);
  }

  /**
   * Replaces the elements by those of another tensor of the same shape, type and backend. Views, expressions and tapes
   * that have the old ones keep them.
   */
  assign(other: Tensor): void {
    const [value, next] = [this.value, checkTensor("assign", "other", other).value];
    checkBackends("assign", [value, next]);
    if (value.dtype !== next.dtype || !sameShape(value.shape, next.shape))
      refuse("assign", "other", `is ${String(other)}; allowed: ${value.dtype} ${listed(value.shape)}`);
    if (value === next) return;
    // A value of its own: that of `other` may be on a tape.
    this.replaceValue(reshape.forward([next], { shape: value.shape }, false) as Value);
  }

  /** Takes over one reference to another value, in place of its own. For optimizers. */
  replaceValue(value: Value): void {
    this.value.release();
    this.#value = value;
    this.guard();
  }

  /** Returns a copy on another backend. It is no part of gradients. */
  async to(backend: ComputeBackend): Promise<Tensor> {
    checkBackend("to", backend);
    const { value } = this;
    const bytes = new ArrayBuffer(value.size * dtypeBytes[value.dtype]);
    value.retain();
    try {
      await value.backend.copyDtoH(bytes, contiguous(value));
    } finally {
      value.release();
    }
    const moved = new Value(backend, value.dtype, value.shape);
    moved.storage = new Storage(backend, upload(backend, bytes));
    return wrap(moved);
  }

  // Views

  /** The same elements in another shape; one extent may be -1. */
  reshape(...shape: number[]): Tensor {
    const wanted = reshaped(this.shape, shape);
    return sameShape(wanted, this.shape) ? this.#same() : apply(reshape, [this], { shape: wanted });
  }

  /** All elements along one axis; or the axes from `from` to `to` made one. */
  flatten(from = 0, to = -1): Tensor {
    if (this.rank === 0) return this.reshape(1);
    const [first, last] = [axisOf("flatten", from, this.rank), axisOf("flatten", to, this.rank)];
    if (first > last) refuse("flatten", "from", `is behind axis ${last}; allowed: at most that`);
    const { shape } = this;
    return this.reshape(
      ...shape.slice(0, first),
      shape.slice(first, last + 1).reduce((a, b) => a * b, 1),
      ...shape.slice(last + 1),
    );
  }

  /** The axes in another order: axis i of the result is axis order[i] of this tensor. */
  permute(...order: number[]): Tensor {
    return apply(permute, [this], { order });
  }

  /** Two axes exchanged; the last two unless others are named. */
  transpose(a = -2, b = -1): Tensor {
    const order = Array.from({ length: this.rank }, (_, i) => i);
    const [first, second] = [axisOf("transpose", a, this.rank), axisOf("transpose", b, this.rank)];
    [order[first], order[second]] = [second, first];
    return apply(permute, [this], { order });
  }

  /** The elements repeated along axes of extent 1, or along new axes in front. */
  expand(...shape: number[]): Tensor {
    return apply(expand, [this], { shape });
  }

  /** Without axes of extent 1: all of them, or the ones named. */
  squeeze(axes?: number | readonly number[]): Tensor {
    const { shape } = this.view.squeeze(axes);
    return this.reshape(...shape);
  }

  /** With another axis of extent 1, before the axis named; -1 adds it at the end. */
  unsqueeze(axis: number): Tensor {
    const at = axisOf("unsqueeze", axis, this.rank + 1);
    return this.reshape(...this.shape.toSpliced(at, 0, 1));
  }

  /** Part of one axis: from `start` up to but without `end`, by steps of `step`. */
  slice(axis: number, span: Span | readonly [start: number, end?: number]): Tensor {
    const range: Span = Array.isArray(span)
      ? { start: span[0], ...(span[1] === undefined ? {} : { end: span[1] }) }
      : (span as Span);
    return apply(slice, [this], { axis: axisOf("slice", axis, this.rank), span: range });
  }

  /** The elements at one place of an axis, without that axis. */
  at(place: number, axis = 0): Tensor {
    const along = axisOf("at", axis, this.rank);
    const extent = this.shape[along]!;
    const from = place < 0 ? place + extent : place;
    if (!Number.isInteger(place) || from < 0 || from >= extent)
      refuse("at", "place", `is ${place}; allowed: ${-extent} to ${extent - 1}`, "OUT_OF_BOUNDS");
    return scope(() => {
      const part = this.slice(along, { start: from, end: from + 1 });
      return part.reshape(...this.shape.toSpliced(along, 1));
    });
  }

  /** The elements along some axes in the opposite order. */
  flip(axes?: number | readonly number[]): Tensor {
    return scope(() =>
      axesOf("flip", axes, this.rank).reduce<Tensor>(
        (tensor, axis) => tensor.slice(axis, { step: -1 }),
        this.#same(),
      ),
    );
  }

  /** Parts along an axis, each of `extent` places; the last one has what is left. */
  chunk(extent: number, axis = 0): Tensor[] {
    const along = axisOf("chunk", axis, this.rank);
    if (!Number.isSafeInteger(extent) || extent < 1)
      refuse("chunk", "extent", `is ${extent}; allowed: whole numbers from 1`);
    const parts: Tensor[] = [];
    for (let start = 0; start < this.shape[along]!; start += extent)
      parts.push(this.slice(along, { start, end: start + extent }));
    return parts;
  }

  /** Zeros around: [before, after] for each axis. */
  pad(...amounts: (readonly [before: number, after: number])[]): Tensor {
    const isPadding =
      amounts.length === this.rank &&
      amounts.flat().every((count) => Number.isSafeInteger(count) && count >= 0);
    if (!isPadding)
      refuse(
        "pad",
        "amounts",
        `is ${JSON.stringify(amounts)}; allowed: two whole numbers from 0 for each of ${this.rank} axes`,
      );
    const shape = this.shape.map((extent, axis) => extent + amounts[axis]![0] + amounts[axis]![1]);
    const spans = this.shape.map((extent, axis) => ({
      start: amounts[axis]![0],
      end: amounts[axis]![0] + extent,
    }));
    return apply(place, [this], { shape, spans });
  }

  // Elementwise

  /** Any function of one element, by the name that core has for it. Those below are the usual ones. */
  unary(kind: UnaryKind): Tensor {
    return apply(
      elementwise.unary[kind] ?? refuse("unary", "kind", `is ${String(kind)}, which is unknown`),
      [this],
      undefined,
    );
  }

  /** Any function of two elements, by the name that core has for it. */
  binary(kind: BinaryKind, other: Tensor | number): Tensor {
    const operation = binaryOperation(kind);
    return typeof other === "number"
      ? apply(operation, [this], { b: other })
      : apply(operation, [this, other], noNumbers);
  }

  /** The same with the number first: `kind(number, this)`. */
  binaryFrom(kind: BinaryKind, number: number): Tensor {
    return apply(binaryOperation(kind), [this], { a: number });
  }

  add(other: Tensor | number): Tensor {
    return this.binary("add", other);
  }

  sub(other: Tensor | number): Tensor {
    return this.binary("sub", other);
  }

  mul(other: Tensor | number): Tensor {
    return this.binary("mul", other);
  }

  div(other: Tensor | number): Tensor {
    return this.binary("div", other);
  }

  pow(exponent: Tensor | number): Tensor {
    return this.binary("pow", exponent);
  }

  /** The larger one of each two elements. */
  maximum(other: Tensor | number): Tensor {
    return this.binary("max", other);
  }

  /** The smaller one of each two elements. */
  minimum(other: Tensor | number): Tensor {
    return this.binary("min", other);
  }

  /** Comparisons give u8: 1 or 0. */
  equal(other: Tensor | number): Tensor {
    return this.binary("equal", other);
  }

  less(other: Tensor | number): Tensor {
    return this.binary("less", other);
  }

  greater(other: Tensor | number): Tensor {
    return this.binary("greater", other);
  }

  neg(): Tensor {
    return this.unary("neg");
  }

  abs(): Tensor {
    return this.unary("abs");
  }

  exp(): Tensor {
    return this.unary("exp");
  }

  log(): Tensor {
    return this.unary("log");
  }

  sqrt(): Tensor {
    return this.unary("sqrt");
  }

  square(): Tensor {
    return this.unary("square");
  }

  reciprocal(): Tensor {
    return this.unary("reciprocal");
  }

  sin(): Tensor {
    return this.unary("sin");
  }

  cos(): Tensor {
    return this.unary("cos");
  }

  tanh(): Tensor {
    return this.unary("tanh");
  }

  sigmoid(): Tensor {
    return this.unary("sigmoid");
  }

  relu(): Tensor {
    return this.unary("relu");
  }

  gelu(): Tensor {
    return this.unary("gelu");
  }

  silu(): Tensor {
    return this.unary("silu");
  }

  softplus(): Tensor {
    return this.unary("softplus");
  }

  /** x if x > 0, else slope x. */
  leakyRelu(slope = 0.01): Tensor {
    return scope(() => where(this.greater(0), this, this.mul(slope)));
  }

  /** x if x > 0, else alpha (e^x - 1). */
  elu(alpha = 1): Tensor {
    return scope(() => {
      const isPositive = this.greater(0);
      // Not e^x of large x, which is infinite: the gradient would multiply that by 0.
      const negative = where(isPositive, 0, this);
      return where(isPositive, this, negative.unary("expm1").mul(alpha));
    });
  }

  /** Nothing below `least`, nothing above `most`. */
  clip(least: number, most: number): Tensor {
    return scope(() => this.maximum(least).minimum(most));
  }

  /** Another element type, converted as `copy` does. */
  cast(dtype: DType): Tensor {
    if (dtype === this.dtype) return this.#same();
    checkDtype("cast", dtype);
    return isConvertedInPlace(this.dtype, dtype)
      ? apply(convert, [this], { to: dtype })
      : apply(cast, [this], { to: dtype });
  }

  // Sums and the like, over the axes named, or all

  sum(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return apply(reductions.sum, [this], { axes, keepAxes });
  }

  mean(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return apply(reductions.mean, [this], { axes, keepAxes });
  }

  max(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return apply(reductions.max, [this], { axes, keepAxes });
  }

  min(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return apply(reductions.min, [this], { axes, keepAxes });
  }

  prod(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return apply(reductions.prod, [this], { axes, keepAxes });
  }

  /** Of u8: whether any element is not 0. */
  any(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return apply(reductions.any, [this], { axes, keepAxes });
  }

  /** Of u8: whether no element is 0. */
  all(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return apply(reductions.all, [this], { axes, keepAxes });
  }

  /** The mean of (x - mean)^2. */
  variance(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return scope(() =>
      this.sub(this.mean(axes, { keepAxes: true }))
        .square()
        .mean(axes, { keepAxes }),
    );
  }

  /** ln(sum of e^x), which does not overflow on the way. */
  logSumExp(axes?: number | readonly number[], { keepAxes }: ReductionOptions = {}): Tensor {
    return apply(reductions.logSumExp, [this], { axes, keepAxes });
  }

  /** The first place of the largest element along an axis, i32. */
  argMax(axis = -1): Tensor {
    return apply(argReduce, [this], { kind: "argMax", axis });
  }

  argMin(axis = -1): Tensor {
    return apply(argReduce, [this], { kind: "argMin", axis });
  }

  /** The sum of all elements so far, along an axis. */
  cumulativeSum(axis = -1, options: ScanOptions = {}): Tensor {
    return this.scan("sum", axis, options);
  }

  /** Other kinds of `scan`, by the name that core has for them. */
  scan(kind: ScanKind, axis = -1, { exclusive = false, reverse = false }: ScanOptions = {}): Tensor {
    if (!Object.hasOwn(scans, kind)) refuse("scan", "kind", `is ${String(kind)}, which is unknown`);
    const operation = scans[kind];
    return apply(operation, [this], { axis, exclusive, reverse });
  }

  softmax(axis = -1): Tensor {
    return apply(softmaxes.softmax, [this], { axis });
  }

  logSoftmax(axis = -1): Tensor {
    return apply(softmaxes.logSoftmax, [this], { axis });
  }

  // Products

  /** The matrix product of the last two axes; the axes before them broadcast. One axis alone is a row, or a column. */
  matmul(other: Tensor): Tensor {
    checkTensor("matmul", "other", other);
    if (this.rank > 1 && other.rank > 1) return apply(matmul, [this, other], undefined);
    if (this.rank === 0 || other.rank === 0)
      refuse(
        "matmul",
        "shapes",
        `are ${listed(this.shape)} and ${listed(other.shape)}; allowed: at least one axis each`,
      );
    return scope(() => {
      const a = this.rank === 1 ? this.unsqueeze(0) : this;
      const b = other.rank === 1 ? other.unsqueeze(1) : other;
      const product = apply(matmul, [a, b], undefined);
      const batch = product.shape.slice(0, -2);
      return product.reshape(
        ...batch,
        ...(this.rank === 1 ? [] : [a.shape.at(-2)!]),
        ...(other.rank === 1 ? [] : [b.shape.at(-1)!]),
      );
    });
  }

  /** x W + b, with W [inputs, outputs] and, if there is one, b [outputs]; the axes before the last one are kept. */
  linear(weight: Tensor, bias?: Tensor): Tensor {
    return apply(linear, bias === undefined ? [this, weight] : [this, weight, bias], undefined);
  }

  // Indices

  /** Rows, or what else lies at each place along an axis, at the indices (i32): shape with that of the indices in place of the axis. */
  take(indices: Tensor, axis = 0): Tensor {
    checkTensor("take", "indices", indices);
    const along = axisOf("take", axis, this.rank);
    const ones = (count: number): number[] => new Array<number>(count).fill(1);
    return scope(() => {
      const list = indices.reshape(...ones(along), indices.size, ...ones(this.rank - along - 1));
      const taken = apply(gather, [this, list], { axis: along });
      return taken.reshape(...this.shape.slice(0, along), ...indices.shape, ...this.shape.slice(along + 1));
    });
  }

  /** Elements along an axis, each at an index (i32) of its own: the shape of the indices, which is that of this tensor but along the axis. */
  takeAlong(indices: Tensor, axis = -1): Tensor {
    return apply(gather, [this, indices], { axis: axisOf("takeAlong", axis, this.rank) });
  }

  /** Zeros of a shape, to which the rows of this tensor are added at the indices (i32) along an axis: the inverse of `takeAlong`. */
  scatterAdd(indices: Tensor, shape: Shape, axis = -1): Tensor {
    checkShape("scatterAdd", shape);
    return apply(scatterAdd, [this, indices], { axis: axisOf("scatterAdd", axis, this.rank), shape });
  }

  /** A tensor of its own with the same value, so that each may be disposed of by itself. */
  #same(): Tensor {
    return wrap(this.value.retain());
  }

  protected release(): void {
    this.#value.release();
  }

  protected releaser(): () => void {
    return releaserOf(this.#value);
  }
}

/** Apart from the class, so that the function does not hold the tensor. */
function releaserOf(value: Value): () => void {
  return () => value.release();
}

const noNumbers: NumberOperands = {};

function binaryOperation(kind: BinaryKind): TensorOperation<NumberOperands> {
  return elementwise.binary[kind] ?? refuse("binary", "kind", `is ${String(kind)}, which is unknown`);
}

const readers: Readonly<Record<DType, (bytes: ArrayBuffer) => HostArray>> = {
  f32: (bytes) => new Float32Array(bytes),
  f16: (bytes) => decodeFloat16(new Uint16Array(bytes)),
  bf16: (bytes) => decodeBfloat16(new Uint16Array(bytes)),
  i32: (bytes) => new Int32Array(bytes),
  u32: (bytes) => new Uint32Array(bytes),
  u8: (bytes) => new Uint8Array(bytes),
};

/** Returns a tensor that holds a value, and takes over one reference to it. */
export function wrap(value: Value): Tensor {
  return new Tensor(value);
}

/** Carries out an operation, and tells the tapes. */
export function apply<Attributes>(
  operation: TensorOperation<Attributes>,
  inputs: readonly Tensor[],
  attributes: Attributes,
): Tensor {
  const values = new Array<Value>(inputs.length);
  for (let i = 0; i < inputs.length; i++) {
    const input: unknown = inputs[i];
    if (!(input instanceof Tensor))
      refuse(
        operation.name,
        `inputs[${i}]`,
        `is ${described(input)}; allowed: tensors, and numbers in arithmetic`,
      );
    values[i] = input.value;
  }
  checkBackends(operation.name, values);
  const isSaved = isTracked(values);
  const result = undoneOnFailure(() => operation.forward(values, attributes, isSaved));
  const [output, ...saved] = result instanceof Value ? [result] : result;
  if (isSaved) {
    const { name } = operation;
    try {
      record({ name, inputs: values, output, saved, attributes });
    } catch (error) {
      output.release();
      throw error;
    } finally {
      for (const value of saved) value.release();
    }
  }
  return wrap(output);
}

/**
 * Carries out an operation with several results, none of which has a gradient of its own: a tape that would need one refuses.
 */
export function applyAll(
  name: string,
  inputs: readonly Tensor[],
  forward: (values: readonly Value[]) => readonly (Value | undefined)[],
): readonly (Tensor | undefined)[] {
  const values = inputs.map((input) => input.value);
  checkBackends(name, values);
  if (isTracked(values))
    refuse(name, "inputs", "are on a tape, and it has no gradient; allowed: withoutRecording", "UNSUPPORTED");
  return undoneOnFailure(() => forward(values)).map((value) => value && wrap(value));
}

/** Returns a tensor, which must be one. */
export function checkTensor(operation: string, argument: string, input: unknown): Tensor {
  return input instanceof Tensor
    ? input
    : refuse(operation, argument, `is ${described(input)}; allowed: a tensor`);
}

function checkBackends(name: string, values: readonly Value[]): void {
  for (let i = 1; i < values.length; i++)
    if (values[i]!.backend !== values[0]!.backend)
      refuse(
        name,
        "tensors",
        `are on ${values[0]!.backend.name} and on another backend, ${values[i]!.backend.name}; allowed: one backend (use to)`,
      );
}

/** a where the condition (u8) is not 0, else b. All broadcast; a and b may be numbers. */
export function where(condition: Tensor, a: Tensor | number, b: Tensor | number): Tensor {
  const inputs = [condition];
  const numbers: { a?: number; b?: number } = {};
  if (typeof a === "number") numbers.a = a;
  else inputs.push(a);
  if (typeof b === "number") numbers.b = b;
  else inputs.push(b);
  return apply(select, inputs, numbers);
}
