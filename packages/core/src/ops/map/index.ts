import type { Region } from "../../region.js";
import type { Checks } from "../checks.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";
import { type BroadcastAxes, checkBroadcast, mergeBroadcast } from "./axes.js";
import type { MapElementType, MapNode, MapNumberType, MapStep } from "./nodes.js";
import { type Prepared, prepare } from "./prepared.js";
import { type Structure, structureOf } from "./structure.js";

const table = {
  /** Shape of the outputs; at most 8 axes. [] is one element. */
  shape: { role: "extents" },
  /** At most 16. None is needed: nodes may count along axes. */
  inputs: { role: "reads", shape: "inputShapes", list: true },
  /** One for each input, which is contiguous: a shape that broadcasts to `shape`; undefined stands for that itself. */
  inputShapes: { role: "extents", list: true, otherwise: "shape" },
  /** One for each input. */
  inputTypes: {
    role: "elementType",
    types: ["f32", "f16", "i32", "u32", "u8"],
    list: true,
    otherwise: "dtype",
  },
  /** Numbers that nodes name: at most 32, rounded to f32 unless their nodes have an integer type. */
  parameters: { role: "factor", list: true, otherwise: "none" },
  /** At most 256. */
  nodes: { role: "nodes" },
  /** The node whose value each output gets: as many as there are outputs. Negative ones count from the last node. */
  results: { role: "axes" },
  /**
   * At most 8, contiguous. Each may be exactly one of the inputs, if that has the same type and the full shape. They
   * may not overlap one another.
   */
  outputs: { role: "writes", shape: "shape each", list: true },
  /** One for each output: that of its node, or f32 or f16 if that is f32. */
  outputTypes: {
    role: "elementType",
    types: ["f32", "f16", "i32", "u32", "u8"],
    list: true,
    otherwise: "dtype",
  },
  /** Of inputs and outputs that have no type of their own. */
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * outputs[j][i] = the value of node results[j] at the place i of the shape: one elementwise expression over several
 * inputs, numbers and places. A node uses nodes before it, so that no expression can have a cycle.
 *
 *   // y = x sigmoid(alpha x)
 *   backend.map({
 *     shape: [n], inputs: [x], parameters: [alpha], outputs: [y], results: [4],
 *     nodes: [{ input: 0 }, { parameter: 0 }, { binary: "mul", a: 0, b: 1 }, { unary: "sigmoid", x: 2 },
 *             { binary: "mul", a: 0, b: 3 }],
 *   });
 *
 * - Arithmetic of f16 inputs is in f32, and each f16 output is rounded once.
 * - i32 and u32 wrap around, and comparisons give u8, 1 or 0, as in `binary`; `convert` is the conversion of `copy`.
 *   Nothing is converted unasked: operands of a node must have one type.
 * - Backends compile a kernel for each structure: the nodes, with their constants, and the element types. Sizes and
 *   parameters are no part of it, so numbers that change from call to call should be parameters.
 * - Nodes that no result needs are not computed, and nodes that are the same are computed once.
 */
export interface MapArguments extends ArgumentsOf<typeof table> {}

/** The largest expression that every backend takes. */
export const mapLimits: {
  readonly [Name in "axes" | "inputs" | "outputs" | "parameters" | "nodes"]: number;
} = { axes: 8, inputs: 16, outputs: 8, parameters: 32, nodes: 256 };

export interface MapInput<Memory> {
  readonly dtype: MapElementType;
  readonly region: Region<Memory>;
  /** Elements per step along each axis of the problem's shape; 0 where it repeats. */
  readonly strides: readonly number[];
}

export interface MapOutput<Memory> {
  readonly dtype: MapElementType;
  /** Contiguous. Disjoint from those of other outputs, and from each input's region, or the same region. */
  readonly region: Region<Memory>;
  /** The step whose value it gets: of the type, or f32 if that is f16. */
  readonly result: number;
}

/**
 * Only what the results need is left of nodes, inputs and parameters, and no two steps are the same. Axes of extent 1
 * are dropped, and neighbours are merged if all inputs allow it and no step counts along one of them: without
 * broadcasting and such steps there is one axis. An empty shape means one element.
 */
export interface MapProblem<Memory> {
  /** Of the first output. */
  readonly dtype: MapElementType;
  readonly shape: readonly number[];
  /** Product of the shape, at least 1. */
  readonly n: number;
  /** In the order in which steps use them first. */
  readonly inputs: readonly MapInput<Memory>[];
  readonly outputs: readonly MapOutput<Memory>[];
  /** Already rounded to f32, or integers of the type that steps take them for. */
  readonly parameters: readonly { readonly type: MapNumberType; readonly value: number }[];
  /** Each uses earlier ones. */
  readonly steps: readonly MapStep[];
  /**
   * The structure as text: steps, results and element types, but neither sizes, strides nor the values of parameters.
   * Problems with the same key may share a kernel.
   */
  readonly key: string;
}

export const map: Operation<MapArguments, MapProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "map",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const shape = read.extents("shape", args.shape);
    if (shape.length > mapLimits.axes)
      read.fail("shape", `has ${shape.length} axes; allowed: at most ${mapLimits.axes}`);
    const n = read.product("shape", shape);
    const inputs = read.operands("inputs", args.inputs, 0, mapLimits.inputs);
    const outputs = read.operands("outputs", args.outputs, 1, mapLimits.outputs);
    const shapes = read.shapes("inputShapes", args.inputShapes, inputs.length, shape);
    for (let i = 0; i < shapes.length; i++)
      if (shapes[i] !== shape) checkBroadcast(read, `inputShapes[${i}]`, shapes[i]!, shape);
    const types = { types: table.inputTypes.types, default: dtype as MapElementType };
    const inputTypes = read.elementTypes("inputTypes", args.inputTypes, inputs.length, types);
    const outputTypes = read.elementTypes("outputTypes", args.outputTypes, outputs.length, types);
    const numbers = read.factors("parameters", args.parameters);
    if (numbers.length > mapLimits.parameters)
      read.fail("parameters", `has ${numbers.length} numbers; allowed: at most ${mapLimits.parameters}`);

    const nodes = read.nodes<MapNode>("nodes", args.nodes);
    if (nodes.length > mapLimits.nodes)
      read.fail("nodes", `has ${nodes.length} nodes; allowed: at most ${mapLimits.nodes}`);
    const results = read.list("results", read.axes("results", args.results), "places", outputs.length);
    const parameterCount = numbers.length;
    const rank = shape.length;
    const prepared = prepare(read, { nodes, results, inputTypes, outputTypes, parameterCount, rank });
    const values: MapProblem<unknown>["parameters"][number][] = [];
    for (let i = 0; i < parameterCount; i++) {
      const type = prepared.parameterTypes[i]!;
      const given = numbers[i]!;
      const rounded = type === "f32" && typeof given === "number" ? Math.fround(given) : Number.NaN;
      // The name of an entry is made only if it is needed.
      const value = Number.isFinite(rounded) ? rounded : read.scalar(`parameters[${i}]`, given, type);
      values.push({ type, value });
    }

    const from: Region<unknown>[] = [];
    for (let i = 0; i < inputs.length; i++) {
      const count = shapes[i] === shape ? n : read.product(`inputShapes[${i}]`, shapes[i]!);
      from.push(binder.region(inputNames[i]!, inputs[i]!, count, inputTypes[i]!));
    }
    const to: Region<unknown>[] = [];
    for (let i = 0; i < outputs.length; i++)
      to.push(binder.region(outputNames[i]!, outputs[i]!, n, outputTypes[i]!));
    checkOverlaps(read, to, outputTypes, from, inputTypes);
    if (n === 0) return undefined;

    const axes =
      prepared.structure !== undefined && args.inputShapes === undefined
        ? flat(n, inputs.length)
        : mergeBroadcast(shape, shapes, prepared.counted);
    const structure = prepared.structure ?? placedStructure(prepared, axes, inputTypes, outputTypes);
    const used: MapInput<unknown>[] = [];
    for (const i of structure.inputs)
      used.push({ dtype: inputTypes[i]!, region: from[i]!, strides: axes.strides[i]! });
    const written: MapOutput<unknown>[] = [];
    for (let i = 0; i < to.length; i++)
      written.push({ dtype: outputTypes[i]!, region: to[i]!, result: structure.results[i]! });
    return {
      dtype: outputTypes[0]!,
      shape: axes.shape,
      n,
      inputs: used,
      outputs: written,
      parameters: structure.parameters.map((i) => values[i]!),
      steps: structure.steps,
      key: structure.key,
    };
  },

  /** Each function of one element counts 1, as in `unary` and `binary`. */
  flops({ n, steps }) {
    let functions = 0;
    for (let i = 0; i < steps.length; i++) {
      const { step } = steps[i]!;
      if (step === "unary" || step === "binary") functions++;
    }
    return n * functions;
  },

  bytes: ({ inputs, outputs }) =>
    [...inputs, ...outputs].reduce((bytes, { region }) => bytes + region.byteLength, 0),
});

/** Their names in messages. */
const inputNames = Array.from({ length: mapLimits.inputs }, (_, i) => `inputs[${i}]`);
const outputNames = Array.from({ length: mapLimits.outputs }, (_, i) => `outputs[${i}]`);

/** Fails if an output shares bytes with another one, or with an input that is not exactly the same elements. */
function checkOverlaps(
  checks: Checks,
  outputs: readonly Region<unknown>[],
  outputTypes: readonly MapElementType[],
  inputs: readonly Region<unknown>[],
  inputTypes: readonly MapElementType[],
): void {
  for (let i = 0; i < outputs.length; i++) {
    const region = outputs[i]!;
    const argument = outputNames[i]!;
    for (let j = 0; j < i; j++)
      if (outputs[j]!.memory === region.memory)
        checks.disjoint({ argument, region }, { argument: outputNames[j]!, region: outputs[j]! });
    for (let j = 0; j < inputs.length; j++) {
      if (inputs[j]!.memory !== region.memory) continue;
      const input = { argument: inputNames[j]!, region: inputs[j]! };
      if (inputTypes[j] === outputTypes[i]) checks.disjointOrSame({ argument, region }, input);
      else checks.disjoint({ argument, region }, input);
    }
  }
}

/** The axes of inputs that all have the whole shape, none of which is counted along. */
function flat(n: number, inputs: number): Pick<BroadcastAxes, "shape" | "strides"> {
  return n === 1
    ? { shape: [], strides: stridesOfOne[inputs]! }
    : { shape: [n], strides: stridesOfMany[inputs]! };
}

/** The strides of any number of inputs. */
const listsOf = (strides: readonly number[]): readonly (readonly (readonly number[])[])[] =>
  Array.from({ length: mapLimits.inputs + 1 }, (_, inputs) => new Array(inputs).fill(strides));
const stridesOfOne = listsOf([]);
const stridesOfMany = listsOf([1]);

/** The structure of steps some of which count along axes: along those that are left after merging. */
function placedStructure(
  { steps, results }: Prepared,
  axes: Pick<BroadcastAxes, "shape" | "strides"> & Partial<BroadcastAxes>,
  inputTypes: readonly MapElementType[],
  outputTypes: readonly MapElementType[],
): Structure {
  const placed = steps.map((step): MapStep => {
    if (step.step !== "index") return step;
    const axis = axes.places?.[step.axis];
    return axis === undefined ? { step: "constant", type: "i32", value: 0 } : { ...step, axis };
  });
  return structureOf(placed, results, inputTypes, outputTypes);
}
