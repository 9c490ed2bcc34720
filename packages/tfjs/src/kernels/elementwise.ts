import {
  type BinaryKind,
  type MapNode,
  type MapNumberType,
  type MapType,
  mapLimits,
  type UnaryKind,
} from "@backplane/core";
import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend, Output } from "../backend.js";
import { type DeviceElementType, type DeviceType, deviceType, elementCount } from "../elements.js";

/** A node of an expression. */
export interface Node {
  readonly place: number;
  readonly type: MapType;
}

/** Builds the expression of one call of `map`. Every method returns a new node. */
export class Expression {
  readonly nodes: MapNode[] = [];
  readonly parameters: number[] = [];
  /** Whether it depends on places along axes. */
  counts = false;
  readonly #rank: number;

  constructor(rank: number) {
    this.#rank = rank;
  }

  /** The element of an input. */
  input(input: number, type: MapType): Node {
    return this.#add({ input }, type);
  }

  /** A number that may change from call to call: no kernel is compiled for each. */
  number(value: number, type: MapNumberType = "f32"): Node {
    this.parameters.push(value);
    return this.#add({ parameter: this.parameters.length - 1, type }, type);
  }

  /** A number that is part of the kernel. */
  constant(value: number, type: MapType = "f32"): Node {
    return this.#add({ constant: value, type }, type);
  }

  /** The place along an axis, an i32. Negative axes count from the last. */
  index(axis: number): Node {
    this.counts = true;
    return this.#add({ index: axis < 0 ? axis + this.#rank : axis }, "i32");
  }

  unary(unary: UnaryKind, x: Node): Node {
    const isTest = unary === "isNaN" || unary === "isInfinite" || unary === "isFinite";
    return this.#add({ unary, x: x.place }, isTest ? "u8" : x.type);
  }

  binary(binary: BinaryKind, a: Node, b: Node): Node {
    return this.#add({ binary, a: a.place, b: b.place }, comparisons.has(binary) ? "u8" : a.type);
  }

  select(condition: Node, a: Node, b: Node): Node {
    return this.#add({ select: condition.place, a: a.place, b: b.place }, a.type);
  }

  /** The node itself if it has the type. */
  convert(type: MapType, x: Node): Node {
    return x.type === type ? x : this.#add({ convert: type, x: x.place }, type);
  }

  /** The truth value of a number: whether it is not 0. */
  truth(x: Node): Node {
    return x.type === "u8" ? x : this.binary("notEqual", x, this.constant(0, x.type));
  }

  #add(node: MapNode, type: MapType): Node {
    this.nodes.push(node);
    return { place: this.nodes.length - 1, type };
  }
}

const comparisons: ReadonlySet<string> = new Set([
  "equal",
  "notEqual",
  "less",
  "lessEqual",
  "greater",
  "greaterEqual",
]);

/** The shape to which all tensors broadcast. */
export function broadcastShape([first, ...others]: readonly TensorInfo[]): readonly number[] {
  let shape: readonly number[] = first?.shape ?? [];
  for (const tensor of others) shape = broadcast(shape, tensor.shape);
  return shape;
}

/** The shape to which two shapes broadcast: most are the same, or one of them is a scalar. */
export function broadcast(a: readonly number[], b: readonly number[]): readonly number[] {
  if (b.length === 0 || isSameShape(a, b)) return a;
  if (a.length === 0) return b;
  return backend_util.assertAndGetBroadcastShape(a as number[], b as number[]);
}

function isSameShape(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let axis = 0; axis < a.length; axis++) if (a[axis] !== b[axis]) return false;
  return true;
}

/**
 * A new tensor, each of whose elements is the value of an expression of the inputs' elements at its place. Inputs
 * broadcast to the shape, which is that of all inputs by default. A float that becomes an integer loses its fraction;
 * a number that becomes bool is true unless it is 0.
 */
export function elementwise(
  backend: BackplaneBackend,
  dtype: DeviceType,
  inputs: readonly TensorInfo[],
  build: (expression: Expression, ...inputs: Node[]) => Node,
  shape: readonly number[] = broadcastShape(inputs),
): TensorInfo {
  return elementwiseOutputs(
    backend,
    [dtype],
    inputs,
    (expression, ...nodes) => [build(expression, ...nodes)],
    shape,
  )[0]!;
}

/** As `elementwise`, with several results. */
export function elementwiseOutputs(
  backend: BackplaneBackend,
  dtypes: readonly DeviceType[],
  inputs: readonly TensorInfo[],
  build: (expression: Expression, ...inputs: Node[]) => readonly Node[],
  shape: readonly number[] = broadcastShape(inputs),
): TensorInfo[] {
  return elementwiseInto(backend, dtypes, inputs, build, shape, () =>
    dtypes.map((dtype) => backend.output(shape, dtype)),
  );
}

/** Replaces a tensor of the kernel under way, whose shape all inputs broadcast to, by the value of an expression. */
export function elementwiseInPlace(
  backend: BackplaneBackend,
  tensor: Output,
  others: readonly TensorInfo[],
  build: (expression: Expression, ...inputs: Node[]) => Node,
): void {
  elementwiseInto(
    backend,
    [tensor.dtype as DeviceType],
    [tensor, ...others],
    (expression, ...nodes) => [build(expression, ...nodes)],
    tensor.shape,
    () => [tensor],
  );
}

function elementwiseInto(
  backend: BackplaneBackend,
  dtypes: readonly DeviceType[],
  inputs: readonly TensorInfo[],
  build: (expression: Expression, ...inputs: Node[]) => readonly Node[],
  shape: readonly number[],
  outputsOf: () => Output[],
): Output[] {
  const outputTypes = dtypes.map((dtype) => deviceType(dtype));
  const expression = new Expression(shape.length);
  const given: TensorInfo[] = [];
  const inputTypes: DeviceElementType[] = [];
  const nodes: Node[] = [];
  for (const input of inputs) {
    const type = deviceType(input.dtype);
    // A number that only the host has need not become an allocation for one call.
    const number = type === "u8" ? undefined : backend.number(input);
    if (type !== "u8" && number !== undefined) nodes.push(expression.number(number, type));
    else {
      nodes.push(expression.input(given.length, type));
      given.push(input);
      inputTypes.push(type);
    }
  }
  const results = build(expression, ...nodes).map((node, i) => {
    const type = outputTypes[i]!;
    return (type === "u8" ? expression.truth(node) : expression.convert(type, node)).place;
  });
  const count = elementCount(shape);
  // As many elements as the result has are in its order: there is nothing to broadcast.
  const isFlat = !expression.counts && given.every((input) => elementCount(input.shape) === count);
  const places = given.map((input) => backend.place(input));
  const outputs = outputsOf();
  const call = {
    shape: isFlat ? [count] : shape,
    inputs: places,
    inputTypes,
    parameters: expression.parameters,
    nodes: expression.nodes,
    results,
    outputs: outputs.map(({ handle }) => handle),
    outputTypes,
  };
  if (isFlat) backend.compute.map(call);
  else backend.compute.map({ ...call, inputShapes: given.map((input) => input.shape) });
  return outputs;
}

/** The most inputs that one expression may have. */
export const mostInputs: number = mapLimits.inputs;

/** The tensor as another type, made of it unless it has that type: the caller releases it, if it is not the same. */
export function asType(backend: BackplaneBackend, x: TensorInfo, dtype: DeviceType): TensorInfo {
  if (x.dtype === dtype) return backend.share(x, x.shape);
  return elementwise(backend, dtype, [x], (_, node) => node);
}

/** The tensor as another type: itself if it has that type, and otherwise made of it, to be released by a composition. */
export function typed(
  backend: BackplaneBackend,
  made: (tensor: TensorInfo) => TensorInfo,
  x: TensorInfo,
  dtype: DeviceType,
): TensorInfo {
  return x.dtype === dtype ? x : made(elementwise(backend, dtype, [x], (_, node) => node));
}
