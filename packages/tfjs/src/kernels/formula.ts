import type { BinaryKind, MapNode, MapNumberType, MapType, UnaryKind } from "@backplane/core";
import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import type { BackplaneBackend } from "../backend.js";
import { type DeviceElementType, type DeviceType, deviceType } from "../elements.js";

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

/** Returns the value of an expression: the nodes are those of the inputs, and then those of the numbers of the call. */
export type Build = (expression: Expression, ...nodes: Node[]) => Node;

/** As `Build`, with several values. */
export type BuildAll = (expression: Expression, ...nodes: Node[]) => readonly Node[];

/** Numbers of a call, which may be others in the next one: no kernel is compiled for each. */
export interface Numbers {
  readonly values: readonly number[];
  /** Default: f32. */
  readonly type?: MapNumberType;
}

export const noNumbers: Numbers = { values: [] };

/** What calls with the same types have in common. */
export interface Built {
  readonly nodes: readonly MapNode[];
  readonly results: readonly number[];
  readonly inputTypes: readonly DeviceElementType[];
  readonly outputTypes: readonly DeviceElementType[];
  /** Whether it depends on places along axes. */
  readonly counts: boolean;
  /** The parameters that come after those of the call. */
  readonly rest: readonly number[];
  /** The operation that does it, if it is a single one. */
  readonly step: SingleStep | undefined;
  /** What compilers may rewrite together with other kernels, if NaN need not be kept: see `keepApart`. */
  readonly algebra: Algebra;
  /** No other has it. */
  readonly id: number;
}

/** Whether an expression has sums or products, among them negations or quotients ("inverse"), or neither. */
export type Algebra = "inverse" | "direct" | "none";

/** A step whose operands are the inputs, and for one of two perhaps a number. */
export type SingleStep =
  | { readonly unary: UnaryKind }
  | { readonly binary: BinaryKind; readonly number: "a" | "b" | undefined };

let builtCount = 0;

const directSteps: ReadonlySet<string> = new Set(["add", "sub", "mul", "square"]);
const inverseSteps: ReadonlySet<string> = new Set(["neg", "reciprocal", "rsqrt", "div", "mod", "floorDiv"]);

function algebraOf(nodes: readonly MapNode[]): Algebra {
  const has = (kinds: ReadonlySet<string>) =>
    nodes.some(
      (node) => ("unary" in node && kinds.has(node.unary)) || ("binary" in node && kinds.has(node.binary)),
    );
  if (has(inverseSteps)) return "inverse";
  return has(directSteps) ? "direct" : "none";
}

/** Finds whether an expression is one step of a type that `unary` and `binary` have. */
function singleOf(nodes: readonly MapNode[], type: DeviceElementType | undefined): SingleStep | undefined {
  const step = nodes[nodes.length - 1]!;
  if (type === undefined || type === "u8") return undefined;
  if ("unary" in step) return nodes.length === 2 && step.x === 0 ? { unary: step.unary } : undefined;
  if (!("binary" in step) || nodes.length !== 3 || step.a !== 0 || step.b !== 1) return undefined;
  const [a, b] = [nodes[0]!, nodes[1]!];
  const [isNumberA, isNumberB] = ["parameter" in a, "parameter" in b];
  if (!(isNumberA || "input" in a) || !(isNumberB || "input" in b)) return undefined;
  if (isNumberA && isNumberB) return undefined;
  return { binary: step.binary, number: isNumberA ? "a" : isNumberB ? "b" : undefined };
}

/**
 * An expression that is built once for all calls with the same types of inputs, numbers and results, in place of once for
 * each call, which takes longer than all else of a small one. What differs between calls must be a number of the call.
 */
export class Formula {
  readonly build: BuildAll;
  /** By a number for the types. */
  readonly #built = new Map<number, Built>();

  constructor(build: BuildAll) {
    this.build = build;
  }

  of(types: number, make: () => Built): Built {
    const found = this.#built.get(types);
    if (found !== undefined) return found;
    const built = make();
    // Core knows a list again if nobody can have changed it.
    for (const node of built.nodes) Object.freeze(node);
    Object.freeze(built.nodes);
    this.#built.set(types, built);
    return built;
  }
}

/** A formula with one value. */
export function formula(build: Build): Formula {
  return new Formula(listed(build));
}

export function listed(build: Build): BuildAll {
  return (expression, ...nodes) => [build(expression, ...nodes)];
}

/** The shape to which all tensors broadcast. */
export function broadcastShape(tensors: readonly TensorInfo[]): readonly number[] {
  let shape: readonly number[] = tensors[0]?.shape ?? [];
  for (let i = 1; i < tensors.length; i++) shape = broadcast(shape, tensors[i]!.shape);
  return shape;
}

/** The shape to which two shapes broadcast: most are the same, or one of them is a scalar. */
export function broadcast(a: readonly number[], b: readonly number[]): readonly number[] {
  if (b.length === 0 || isSameShape(a, b)) return a;
  if (a.length === 0) return b;
  return backend_util.assertAndGetBroadcastShape(a as number[], b as number[]);
}

export function isSameShape(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let axis = 0; axis < a.length; axis++) if (a[axis] !== b[axis]) return false;
  return true;
}

/** A number that only the host has: it need not become an allocation for one call. */
export function numberOf(backend: BackplaneBackend, input: TensorInfo): number | undefined {
  return input.dtype === "bool" ? undefined : backend.number(input);
}

/** What a number for the types has room for. */
const mostKept = { inputs: 6, outputs: 2, rank: 15 } as const;

const placeOfType: Readonly<Record<string, number>> = { float32: 0, int32: 1, bool: 2 };

/** What a call has in common with others of the same types. */
export function builtFor(
  backend: BackplaneBackend,
  dtypes: readonly DeviceType[],
  inputs: readonly TensorInfo[],
  build: BuildAll | Formula,
  rank: number,
  numbers: Numbers,
): Built {
  if (!(build instanceof Formula)) return buildFor(backend, dtypes, inputs, build, rank, numbers);
  const isKept =
    inputs.length <= mostKept.inputs && dtypes.length <= mostKept.outputs && rank <= mostKept.rank;
  if (!isKept) return buildFor(backend, dtypes, inputs, build.build, rank, numbers);
  let types = numbers.type === "i32" ? 3 : 2;
  for (let i = 0; i < inputs.length; i++) {
    const input = inputs[i]!;
    const place = placeOfType[input.dtype] ?? 3;
    types = 8 * types + (numberOf(backend, input) === undefined ? place : 4 + place);
  }
  for (let i = 0; i < dtypes.length; i++) types = 4 * types + placeOfType[dtypes[i]!]!;
  return build.of((mostKept.rank + 1) * types + rank, () =>
    buildFor(backend, dtypes, inputs, build.build, rank, numbers),
  );
}

function buildFor(
  backend: BackplaneBackend,
  dtypes: readonly DeviceType[],
  inputs: readonly TensorInfo[],
  build: BuildAll,
  rank: number,
  { values, type: numberType = "f32" }: Numbers,
): Built {
  const outputTypes = dtypes.map((dtype) => deviceType(dtype));
  const expression = new Expression(rank);
  const inputTypes: DeviceElementType[] = [];
  const nodes = inputs.map((input): Node => {
    const type = deviceType(input.dtype);
    const number = numberOf(backend, input);
    if (type !== "u8" && number !== undefined) return expression.number(number, type);
    inputTypes.push(type);
    return expression.input(inputTypes.length - 1, type);
  });
  for (const value of values) nodes.push(expression.number(value, numberType));
  const given = expression.parameters.length;
  const results = build(expression, ...nodes).map((node, i) => {
    const type = outputTypes[i]!;
    return (type === "u8" ? expression.truth(node) : expression.convert(type, node)).place;
  });
  return {
    ...{ nodes: expression.nodes, results, inputTypes, outputTypes },
    ...{ counts: expression.counts, rest: expression.parameters.slice(given) },
    ...{
      step: results.length === 1 ? singleOf(expression.nodes, inputTypes[0]) : undefined,
      algebra: algebraOf(expression.nodes),
      id: builtCount++,
    },
  };
}
