import type { MapNode } from "@backplane/core";
import type { Data } from "../data.js";
import { type DeviceElementType, deviceType } from "../elements.js";
import type { Deferred } from "./deferred.js";
import { type Built, isSameShape } from "./formula.js";

/** An expression of several kernels, as `map` takes it. */
export interface Chain {
  readonly nodes: readonly MapNode[];
  readonly results: readonly number[];
  readonly inputTypes: readonly DeviceElementType[];
  readonly outputTypes: readonly DeviceElementType[];
}

/** What a chain computes with in one call. */
export interface ChainCall {
  readonly chain: Chain;
  readonly inputs: readonly Data[];
  /** Undefined for inputs with as many elements as the result. */
  readonly shapes: readonly (readonly number[] | undefined)[];
  readonly parameters: readonly number[];
}

/**
 * A tree of the chains that are known, by what a walk along them meets: to find one again takes a step for each kernel and
 * each input, and no text of all of it. Core knows the lists of nodes again.
 */
class Branch {
  chain: Chain | undefined = undefined;
  readonly #next = new Map<number, Branch>();

  next(met: number): Branch {
    const found = this.#next.get(met);
    if (found !== undefined) return found;
    // What is not kept must not grow the tree either.
    if (chains >= mostChains) return nowhere;
    const branch = new Branch();
    this.#next.set(met, branch);
    return branch;
  }
}

const root = new Branch();
/** Where no chain is known, and none will be. */
const nowhere = new Branch();
let chains = 0;

/** Backends compile a kernel for each chain, and keep it. */
const mostChains = 1000;

/** Finds the chain of data and of what they are computed of. Undefined if there have been too many others. */
export function chainOf(data: Data, deferred: Deferred): ChainCall | undefined {
  const walk = new Walk();
  walk.visit(data, deferred);
  const { branch, inputs, shapes, parameters } = walk;
  if (branch.chain === undefined) {
    if (chains >= mostChains) return undefined;
    chains++;
    const nodes: MapNode[] = [];
    const results = [new Walk(nodes).visit(data, deferred)];
    for (const node of nodes) Object.freeze(node);
    const inputTypes = inputs.map(({ dtype }) => deviceType(dtype));
    branch.chain = {
      nodes: Object.freeze(nodes),
      results,
      inputTypes,
      outputTypes: [deviceType(data.dtype)],
    };
  }
  return { chain: branch.chain, inputs, shapes, parameters };
}

/** What a walk meets: a new input is 0, the inputs before it count from here on, results used before down from there. */
const firstInput = 1;
const firstResult = -1;
/** More than there are inputs. */
const firstKernel = 32;

/** Walks from kernels to their operands, and makes nodes if it gets a list for them. */
class Walk {
  branch: Branch = root;
  readonly inputs: Data[] = [];
  readonly shapes: (readonly number[] | undefined)[] = [];
  readonly parameters: number[] = [];
  readonly #nodes: MapNode[] | undefined;
  /** Nodes of the inputs. */
  readonly #inputNodes: number[] = [];
  /** Results that several kernels use, and their nodes. */
  readonly #shared: Data[] = [];
  readonly #sharedNodes: number[] = [];

  constructor(nodes?: MapNode[]) {
    this.#nodes = nodes;
  }

  /** Returns the node of the value, if nodes are made. */
  visit(data: Data, { built, operands, shapes, parameters }: Deferred): number {
    this.branch = this.branch.next(firstKernel + built.id);
    const operandNodes: number[] = [];
    for (let i = 0; i < operands.length; i++)
      operandNodes.push(this.#operand(operands[i]!, shapes === undefined ? undefined : shapes[i]));
    const firstParameter = this.parameters.length;
    for (let i = 0; i < parameters.length; i++) this.parameters.push(parameters[i]!);
    const node = this.#nodes === undefined ? 0 : append(this.#nodes, built, operandNodes, firstParameter);
    if (data.consumers > 1) {
      this.#shared.push(data);
      this.#sharedNodes.push(node);
    }
    return node;
  }

  #operand(operand: Data, shape: readonly number[] | undefined): number {
    const { pending } = operand;
    if (pending === undefined) return this.#input(operand, shape);
    const shared = operand.consumers > 1 ? this.#shared.indexOf(operand) : -1;
    if (shared < 0) return this.visit(operand, pending as Deferred);
    this.branch = this.branch.next(firstResult - shared);
    return this.#sharedNodes[shared]!;
  }

  #input(data: Data, shape: readonly number[] | undefined): number {
    const nodes = this.#nodes;
    for (let i = 0; i < this.inputs.length; i++)
      if (this.inputs[i] === data && isSame(this.shapes[i], shape)) {
        this.branch = this.branch.next(firstInput + i);
        return nodes === undefined ? 0 : this.#inputNodes[i]!;
      }
    this.branch = this.branch.next(0);
    this.inputs.push(data);
    this.shapes.push(shape);
    if (nodes === undefined) return 0;
    this.#inputNodes.push(nodes.length);
    nodes.push({ input: this.inputs.length - 1 });
    return nodes.length - 1;
  }
}

function isSame(a: readonly number[] | undefined, b: readonly number[] | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && isSameShape(a, b));
}

/** Appends the nodes of one kernel, and returns that of its value. */
function append(nodes: MapNode[], built: Built, operands: readonly number[], firstParameter: number): number {
  const moved: number[] = [];
  for (const node of built.nodes) {
    if ("input" in node) moved.push(operands[node.input]!);
    else {
      moved.push(nodes.length);
      nodes.push(movedNode(node, moved, firstParameter));
    }
  }
  return moved[built.results[0]!]!;
}

function movedNode(node: MapNode, moved: readonly number[], firstParameter: number): MapNode {
  if ("unary" in node || "convert" in node) return { ...node, x: moved[node.x]! };
  if ("binary" in node) return { ...node, a: moved[node.a]!, b: moved[node.b]! };
  if ("select" in node) return { select: moved[node.select]!, a: moved[node.a]!, b: moved[node.b]! };
  if ("parameter" in node) return { ...node, parameter: firstParameter + node.parameter };
  return node;
}
