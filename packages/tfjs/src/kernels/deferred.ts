import type { DeviceHandle, Operand } from "@backplane/core";
import type { TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import type { Data, Pending } from "../data.js";
import { type DeviceType, elementCount } from "../elements.js";
import { chainOf } from "./chain.js";
import { type Built, isSameShape, numberOf } from "./formula.js";

/*
 * Elementwise kernels do not compute: they note what their results are made of. When somebody needs one on the device, it is
 * computed together with what it is made of, by one call of `map`.
 */

type Shape = readonly number[];

/** The size of an expression, with what it uses several times counted as often. */
interface Size {
  readonly inputs: number;
  readonly parameters: number;
  readonly nodes: number;
}

/** The largest expressions. Devices of the baseline tier bind 8 buffers, one of which is for the result. */
const limits: Size = { inputs: 7, parameters: 16, nodes: 96 };

/** An elementwise kernel, and what it works on. */
interface Elementwise {
  readonly built: Built;
  readonly operands: readonly Data[];
  /** Of operands that broadcast to the result; undefined for the others. */
  readonly shapes: readonly (Shape | undefined)[] | undefined;
  /** Those of this kernel. */
  readonly parameters: readonly number[];
  /** To which inputs broadcast, here or in what operands are made of. Undefined: all have as many elements. */
  readonly shape: Shape | undefined;
  /** With what operands are made of. */
  readonly size: Size;
}

/** How the result of an elementwise kernel is computed. */
export class Deferred implements Pending, Elementwise {
  readonly #backend: BackplaneBackend;
  readonly built: Built;
  readonly operands: readonly Data[];
  readonly shapes: Elementwise["shapes"];
  readonly parameters: readonly number[];
  readonly shape: Shape | undefined;
  readonly size: Size;
  /** Whether it has been computed as a part of something else. */
  isUsed = false;

  constructor(backend: BackplaneBackend, { built, operands, shapes, parameters, shape, size }: Elementwise) {
    this.#backend = backend;
    this.built = built;
    this.operands = operands;
    this.shapes = shapes;
    this.parameters = parameters;
    this.shape = shape;
    this.size = size;
  }

  compute(data: Data): void {
    const { operands } = this;
    if (hasPending(operands)) {
      computeShared(this.#backend, this);
      const { nan, infinity } = this.#backend.compute.capabilities.numerics;
      if (nan !== "kept" || infinity !== "kept") keepApart(this.#backend, this);
      if (hasPending(operands) && this.#computeChain(data)) return;
    }
    this.#computeAlone(data);
  }

  /** By one call for all that is pending. Returns whether there is one. */
  #computeChain(data: Data): boolean {
    const found = chainOf(data, this);
    if (found === undefined) return false;
    const backend = this.#backend;
    const { chain, shapes: inputShapes, parameters } = found;
    const inputs = placesOf(backend, found.inputs);
    const { nodes, results, inputTypes, outputTypes } = chain;
    const output = backend.allocate(data);
    markUsed(this);
    const call = { inputs, inputTypes, parameters, nodes, results, outputs: [output], outputTypes };
    try {
      if (this.shape === undefined) backend.compute.map({ shape: [data.count], ...call });
      else backend.compute.map({ shape: this.shape, ...call, inputShapes });
    } catch (error) {
      backend.freeHandle(output);
      throw error;
    }
    backend.finish(data, output);
    return true;
  }

  /** Of operands that are on the device then. */
  #computeAlone(data: Data): void {
    const backend = this.#backend;
    const places = placesOf(backend, this.operands);
    const output = backend.allocate(data);
    try {
      this.#call(data.count, places, output);
    } catch (error) {
      backend.freeHandle(output);
      throw error;
    }
    backend.finish(data, output);
  }

  #call(n: number, places: readonly Operand[], output: DeviceHandle): void {
    const { built, shapes, shape, parameters } = this;
    const { compute } = this.#backend;
    const { step, nodes, results, inputTypes, outputTypes } = built;
    const dtype = inputTypes[0]!;
    if (step !== undefined && "unary" in step && shapes === undefined)
      compute.unary({ kind: step.unary, n, input: places[0]!, output, dtype });
    else if (step !== undefined && "binary" in step) {
      const { binary: kind, number } = step;
      const scalar = { scalar: parameters[0]! };
      const a = number === "a" ? scalar : places[0]!;
      const b = number === "b" ? scalar : places[places.length - 1]!;
      if (shapes === undefined) compute.binary({ kind, dtype, n, a, b, output });
      else {
        const ofA = number === "a" ? {} : { shapeA: shapes[0] ?? shape! };
        const ofB = number === "b" ? {} : { shapeB: shapes[shapes.length - 1] ?? shape! };
        compute.binary({ kind, dtype, a, b, output, ...ofA, ...ofB });
      }
    } else {
      const outputs = [output];
      const call = { inputs: places, inputTypes, parameters, nodes, results, outputs, outputTypes };
      if (shapes === undefined) compute.map({ shape: [n], ...call });
      else compute.map({ shape: shape!, ...call, inputShapes: shapes });
    }
  }
}

function hasPending(operands: readonly Data[]): boolean {
  for (let i = 0; i < operands.length; i++) if (operands[i]!.pending !== undefined) return true;
  return false;
}

function placesOf(backend: BackplaneBackend, operands: readonly Data[]): Operand[] {
  const places: Operand[] = [];
  for (let i = 0; i < operands.length; i++) places.push(backend.placeOf(operands[i]!));
  return places;
}

/** Computes what an expression uses that others wait for, too: it would be computed for each of them. */
function computeShared(backend: BackplaneBackend, expression: Deferred): void {
  for (let found = true; found; ) {
    found = false;
    const uses = new Map<Data, number>();
    countUses(expression, uses);
    for (const [data, count] of uses)
      if (data.pending !== undefined && data.consumers > count) {
        backend.placeOf(data);
        found = true;
      }
  }
}

/** Counts how often an expression uses what has several consumers. */
function countUses({ operands }: Pending, uses: Map<Data, number>): void {
  for (let i = 0; i < operands.length; i++) {
    const operand = operands[i]!;
    if (operand.pending === undefined) continue;
    if (operand.consumers > 1) {
      const count = uses.get(operand) ?? 0;
      uses.set(operand, count + 1);
      if (count > 0) continue;
    }
    countUses(operand.pending, uses);
  }
}

/**
 * Computes first what a compiler may cancel, if it need not keep NaN: it makes a of (a - b) + b or of a b / b, x of 1 / (1 / x), and
 * a (b + c) of a b + a c. So in one chain of sums, products and quotients each value is an operand of one kernel, and the
 * operands of a quotient are no quotients.
 */
function keepApart(backend: BackplaneBackend, expression: Deferred): void {
  while (operandsApart(backend, expression) === undefined);
}

/**
 * The operands of a kernel, and of the sums and products that they are. Undefined if some of these were computed, for then others
 * have changed.
 */
function operandsApart(
  backend: BackplaneBackend,
  { built, operands }: Deferred,
): readonly Data[] | undefined {
  const all: Data[] = [];
  let isCancelled = false;
  for (let i = 0; i < operands.length; i++) {
    const operand = operands[i]!;
    const pending = operand.pending as Deferred | undefined;
    const below = pending === undefined ? noData : operandsApart(backend, pending);
    if (below === undefined) return undefined;
    if (built.algebra === "none" || operands.indexOf(operand) < i) continue;
    const own = pending === undefined || pending.built.algebra === "none" ? [operand] : below;
    if (built.algebra === "inverse" && pending?.built.algebra === "inverse") isCancelled = true;
    for (const value of own) {
      if (all.some((other) => isSameValue(value, other))) isCancelled = true;
      all.push(value);
    }
  }
  if (!isCancelled) return all;
  let found = false;
  for (const operand of operands) {
    const pending = operand.pending as Deferred | undefined;
    if (pending === undefined || pending.built.algebra === "none") continue;
    backend.placeOf(operand);
    found = true;
  }
  return found ? undefined : operands;
}

const noData: readonly Data[] = [];

/** Whether a compiler knows that two values are the same. */
function isSameValue(a: Data, b: Data): boolean {
  if (a === b) return true;
  const [p, q] = [a.pending as Deferred | undefined, b.pending as Deferred | undefined];
  if (p === undefined || q === undefined)
    return p === q && a.memory?.handle === b.memory?.handle && a.byteOffset === b.byteOffset;
  return p.built === q.built && p.operands.every((operand, i) => isSameValue(operand, q.operands[i]!));
}

/** Notes of all that an expression uses that it has been computed as a part of it. */
function markUsed({ operands }: Pending): void {
  for (let i = 0; i < operands.length; i++) {
    const pending = operands[i]!.pending as Deferred | undefined;
    if (pending === undefined) continue;
    pending.isUsed = true;
    markUsed(pending);
  }
}

/** A new tensor whose elements are the value of an expression, computed when somebody needs it on the device. */
export function deferred(
  backend: BackplaneBackend,
  dtype: DeviceType,
  built: Built,
  inputs: readonly TensorInfo[],
  shape: Shape,
  values: readonly number[],
): TensorInfo {
  const count = elementCount(shape);
  let defers = backend.defers();
  const operands: Data[] = [];
  const parameters: number[] = [];
  let shapes: (Shape | undefined)[] | undefined;
  for (let i = 0; i < inputs.length; i++) {
    const input = inputs[i]!;
    const operand = backend.dataOf(input.dataId);
    const number = operand.count === 1 ? numberOf(backend, input) : undefined;
    if (number !== undefined) {
      parameters.push(number);
      continue;
    }
    if (operand.pending === undefined && operand.memory === undefined) backend.placeOf(operand);
    if (operand.memory?.isLost === true) defers = false;
    if (operand.count === count) shapes?.push(undefined);
    else {
      shapes ??= operands.map(() => undefined);
      shapes.push(input.shape);
    }
    operands.push(operand);
  }
  for (let i = 0; i < values.length; i++) {
    // What a device refuses fails at once.
    if (!Number.isFinite(Math.fround(values[i]!))) defers = false;
    parameters.push(values[i]!);
  }
  for (let i = 0; i < built.rest.length; i++) parameters.push(built.rest[i]!);

  let common = shapes === undefined ? undefined : shape;
  let nodes = built.nodes.length;
  let inputCount = operands.length;
  let numbers = parameters.length;
  for (let i = 0; i < operands.length; i++) {
    const operand = operands[i]!;
    const pending = operand.pending as Deferred | undefined;
    if (pending === undefined) continue;
    // What has been computed as a part of something else would be so again and again.
    const fits =
      operand.count === count &&
      (pending.shape === undefined || common === undefined || isSameShape(pending.shape, common)) &&
      nodes + pending.size.nodes <= limits.nodes &&
      inputCount - 1 + pending.size.inputs <= limits.inputs &&
      numbers + pending.size.parameters <= limits.parameters;
    if (!defers || pending.isUsed || !fits) {
      backend.placeOf(operand);
      continue;
    }
    common ??= pending.shape;
    nodes += pending.size.nodes;
    inputCount += pending.size.inputs - 1;
    numbers += pending.size.parameters;
  }
  const size: Size = { inputs: inputCount, parameters: numbers, nodes };
  const how = new Deferred(backend, { built, operands, shapes, parameters, shape: common, size });
  const result = backend.defer(shape, dtype, how);
  if (!defers) backend.place(result);
  return result;
}
