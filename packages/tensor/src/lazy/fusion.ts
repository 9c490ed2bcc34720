import {
  type Operand as DeviceOperand,
  type DType,
  dtypeBytes,
  type MapElementType,
  type MapNode,
  type MapNumberType,
  type MapType,
  mapLimits,
} from "@backplane/core";
import { allocate, placeOf, releaseOperands, Value } from "../value.js";
import { type Shape, sameShape } from "../view/shape.js";
import { computedTypes, type Elementwise, type Expression, type Operand } from "./expression.js";

/** Longer chains are cut: their first part is computed on its own. Backends take 256 nodes. */
const mostNodes = 64;

let isFused = true;

/**
 * Turns the fusion of elementwise chains on or off, for everything from now on, and returns how it was. Without it each
 * operation runs at once, on its own.
 */
export function setFusion(on: boolean): boolean {
  const before = isFused;
  isFused = on;
  return before;
}

/** Returns a value that is computed with what comes after it, as far as fusion is on. */
export function defer(
  like: Value,
  fn: Elementwise,
  dtype: DType,
  shape: Shape,
  operands: readonly Operand[],
): Value {
  let [nodes, inputs, parameters] = countOf(shape, operands);
  while (nodes > mostNodes || inputs > mapLimits.inputs || parameters > mapLimits.parameters) {
    realize(largestOf(operands));
    [nodes, inputs, parameters] = countOf(shape, operands);
  }
  const value = new Value(like.backend, dtype, shape);
  for (let i = 0; i < operands.length; i++) {
    const operand = operands[i]!;
    if (typeof operand !== "number") operand.retain();
  }
  value.expression = { function: fn, operands, nodes, inputs, parameters };
  if (isFused) return value;
  try {
    realize(value);
  } catch (error) {
    value.release();
    throw error;
  }
  return value;
}

type Count = [nodes: number, inputs: number, parameters: number];

function countOf(shape: Shape, operands: readonly Operand[]): Count {
  // A scalar may need a conversion.
  const count: Count = [2, 0, 0];
  for (let i = 0; i < operands.length; i++) {
    const operand = operands[i]!;
    if (typeof operand === "number") {
      count[0] += 2;
      count[2]++;
      continue;
    }
    const { expression } = operand;
    if (expression === undefined || !isInlined(operand, shape)) {
      count[0]++;
      count[1]++;
    } else {
      count[0] += expression.nodes;
      count[1] += expression.inputs;
      count[2] += expression.parameters;
    }
  }
  return count;
}

function largestOf(operands: readonly Operand[]): Value {
  let largest: Value | undefined;
  let most = -1;
  for (const operand of operands) {
    if (typeof operand === "number" || operand.expression === undefined) continue;
    const { nodes, inputs, parameters } = operand.expression;
    const size = nodes + 4 * inputs + 2 * parameters;
    if (size > most) [largest, most] = [operand, size];
  }
  return largest!;
}

/** Whether an expression becomes part of one of this shape. One that is repeated would be computed often. */
function isInlined(value: Value, shape: Shape): boolean {
  return value.expression !== undefined && sameShape(value.shape, shape);
}

/** Computes a value that is not computed yet. Its elements are contiguous then. */
export function realize(value: Value): void {
  const { expression, backend, dtype, size } = value;
  if (expression === undefined) return;
  const storage = allocate(backend, size * dtypeBytes[dtype], false);
  try {
    new Fused(value).run(storage.handle);
  } catch (error) {
    storage.release();
    throw error;
  }
  value.storage = storage;
  value.expression = undefined;
  releaseOperands(expression);
}

/** Computes a value if need be, and makes it contiguous. Returns where it begins. */
export function contiguous(value: Value): DeviceOperand {
  if (value.expression !== undefined) realize(value);
  if (value.strides !== undefined) {
    if (value.view.isContiguous) value.strides = undefined;
    else compact(value);
  }
  return placeOf(value);
}

/** Copies the elements of a view to memory of their own, in order. The value is the same as before. */
function compact(value: Value): void {
  const { backend, dtype, shape, size, strides } = value;
  const storage = allocate(backend, size * dtypeBytes[dtype], false);
  try {
    backend.copy({ shape, input: placeOf(value), inputStrides: strides!, output: storage.handle, dtype });
  } catch (error) {
    storage.release();
    throw error;
  }
  value.storage!.release();
  value.storage = storage;
  value.strides = undefined;
  value.offset = 0;
}

/** The parts of one call of `map`. */
class Fused {
  readonly #value: Value;
  readonly #nodes: MapNode[] = [];
  readonly #inputs: DeviceOperand[] = [];
  readonly #inputShapes: Shape[] = [];
  readonly #inputTypes: MapElementType[] = [];
  readonly #parameters: number[] = [];
  readonly #places = new Map<Value, number>();
  #isFlat = true;

  constructor(value: Value) {
    this.#value = value;
  }

  run(output: DeviceOperand): void {
    const { backend, dtype, shape, size } = this.#value;
    const result = this.#placeOf(this.#value);
    // Two literals: one with a spread took a tenth of the time of a small step.
    const common = {
      shape: this.#isFlat ? [size] : shape,
      inputs: this.#inputs,
      inputTypes: this.#inputTypes,
      parameters: this.#parameters,
      nodes: this.#nodes,
      results: [result],
      outputs: [output],
      outputTypes: [dtype as MapElementType],
    };
    if (this.#isFlat) backend.map(common);
    else
      backend.map({
        shape: common.shape,
        inputs: common.inputs,
        inputShapes: this.#inputShapes,
        inputTypes: common.inputTypes,
        parameters: common.parameters,
        nodes: common.nodes,
        results: common.results,
        outputs: common.outputs,
        outputTypes: common.outputTypes,
      });
  }

  #add(node: MapNode): number {
    return this.#nodes.push(node) - 1;
  }

  /** The node of a value: of its expression, or of an input. */
  #placeOf(value: Value): number {
    const known = this.#places.get(value);
    if (known !== undefined) return known;
    const { expression } = value;
    const place =
      expression !== undefined && isInlined(value, this.#value.shape)
        ? this.#computed(value, expression)
        : this.#input(value);
    this.#places.set(value, place);
    return place;
  }

  #input(value: Value): number {
    const { shape } = this.#value;
    const repeated = repeatedShape(value);
    // The call may be nested: an operand of another shape is computed on its own before it is read here.
    const input = repeated === undefined ? contiguous(value) : placeOf(value);
    const inputShape = repeated ?? value.shape;
    if (!sameShape(inputShape, shape)) this.#isFlat = false;
    this.#inputShapes.push(inputShape);
    this.#inputTypes.push(value.dtype as MapElementType);
    return this.#add({ input: this.#inputs.push(input) - 1 });
  }

  #computed(value: Value, { function: fn, operands }: Expression): number {
    switch (fn.form) {
      case "unary":
        return this.#add({ unary: fn.kind, x: this.#placeOf(operands[0] as Value) });
      case "binary": {
        const type = typeOfOperands(operands);
        const a = this.#operand(operands[0]!, type);
        const b = this.#operand(operands[1]!, type);
        return this.#add({ binary: fn.kind, a, b });
      }
      case "select": {
        const type = computedTypes[value.dtype]!;
        const select = this.#placeOf(operands[0] as Value);
        const a = this.#operand(operands[1]!, type);
        const b = this.#operand(operands[2]!, type);
        return this.#add({ select, a, b });
      }
      case "convert":
        return this.#add({ convert: fn.to, x: this.#placeOf(operands[0] as Value) });
      case "index":
        this.#isFlat = false;
        return this.#add({ index: fn.axis });
    }
  }

  #operand(operand: Operand, type: MapType): number {
    if (typeof operand !== "number") return this.#placeOf(operand);
    const parameter = this.#parameters.push(operand) - 1;
    if (type === "f32") return this.#add({ parameter });
    const numberType: MapNumberType = type === "u8" ? "u32" : type;
    const node = this.#add({ parameter, type: numberType });
    return type === "u8" ? this.#add({ convert: "u8", x: node }) : node;
  }
}

function typeOfOperands(operands: readonly Operand[]): MapType {
  for (const operand of operands) if (typeof operand !== "number") return computedTypes[operand.dtype]!;
  throw new Error("internal: an expression of nothing but numbers");
}

/**
 * The shape of the elements of a stored value that are repeated along axes of stride 0: those axes have 1 there. Undefined
 * if the others are not contiguous.
 */
function repeatedShape({ expression, shape, strides }: Value): Shape | undefined {
  if (expression !== undefined) return undefined;
  if (strides === undefined) return shape;
  const repeated = new Array<number>(shape.length);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const extent = shape[i]!;
    const isRepeated = extent === 1 || strides[i] === 0;
    if (!isRepeated && strides[i] !== step) return undefined;
    repeated[i] = isRepeated ? 1 : extent;
    if (!isRepeated) step *= extent;
  }
  return repeated;
}
