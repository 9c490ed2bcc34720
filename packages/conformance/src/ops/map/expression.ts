import {
  type DType,
  isComparison,
  isTest,
  type MapElementType,
  type MapNode,
  type MapStep,
  type MapType,
} from "@backplane/core";
import { random } from "../../data.js";
import { encoded, storages } from "../../elements.js";
import { argumentsOf } from "../../kit/arguments.js";
import { product } from "../../kit/shapes.js";
import type { LawContext } from "../../law.js";
import { executeAll, measure, type Placement, type Slice } from "../../workspace.js";
import { stored } from "./analysis.js";
import { forEachElement } from "./formula.js";

/** An input of a tested call. */
export interface InputCase {
  readonly dtype: MapElementType;
  /** Which axes it repeats along, by their place in the shape. */
  readonly repeats: readonly boolean[];
  /** Axes that it leaves out, from the first on: it repeats along them. Default: 0. */
  readonly without?: number;
  /** An output that lies exactly over it. */
  readonly under?: number;
}

export interface OutputCase {
  readonly dtype: MapElementType;
  readonly result: number;
}

/** `real`: fractions around 0. `whole`: small whole numbers. `any`: what the type holds; of floats, small whole numbers. */
export type Numbers = "real" | "whole" | "any";

export interface MapCase {
  readonly shape: readonly number[];
  readonly inputs: readonly InputCase[];
  readonly nodes: readonly MapNode[];
  readonly parameters: readonly number[];
  readonly outputs: readonly OutputCase[];
  readonly numbers: Numbers;
  readonly placement: Placement;
  readonly seed: number;
}

/** Returns the nodes with their types, independently of the code under test. */
export function typed(nodes: readonly MapNode[], inputs: readonly InputCase[]): readonly MapStep[] {
  const steps: MapStep[] = [];
  const typeOf = (place: number): MapType => steps[place]!.type;
  for (const node of nodes) {
    if ("input" in node) {
      const { dtype } = inputs[node.input]!;
      steps.push({ step: "input", type: dtype === "f16" ? "f32" : dtype, input: node.input });
    } else if ("parameter" in node)
      steps.push({ step: "parameter", type: node.type ?? "f32", parameter: node.parameter });
    else if ("constant" in node) {
      const type = node.type ?? "f32";
      steps.push({
        step: "constant",
        type,
        value: type === "f32" ? Math.fround(node.constant) : node.constant,
      });
    } else if ("index" in node) steps.push({ step: "index", type: "i32", axis: node.index });
    else if ("unary" in node) {
      const of = typeOf(node.x);
      steps.push({ step: "unary", type: isTest(node.unary) ? "u8" : of, of, kind: node.unary, x: node.x });
    } else if ("binary" in node) {
      const of = typeOf(node.a);
      const { binary: kind, a, b } = node;
      steps.push({ step: "binary", type: isComparison(kind) ? "u8" : of, of, kind, a, b });
    } else if ("select" in node)
      steps.push({ step: "select", type: typeOf(node.a), condition: node.select, a: node.a, b: node.b });
    else steps.push({ step: "convert", type: node.convert, from: typeOf(node.x), x: node.x });
  }
  return steps;
}

/** Returns numbers as the type stores them. */
export function draw(count: number, dtype: DType, numbers: Numbers, seed: number): Float64Array<ArrayBuffer> {
  const next = random(seed);
  const isFloat = dtype === "f32" || dtype === "f16";
  const least = dtype === "u32" || dtype === "u8" ? 0 : -8;
  const one = () => {
    if (numbers === "real" && isFloat) return next() * 8 - 4 || 1;
    // One in two is small, so that equal ones meet.
    if (numbers === "any" && !isFloat && next() < 0.5)
      return dtype === "i32"
        ? Math.floor((next() - 0.5) * 2 ** 32)
        : Math.floor(next() * (dtype === "u8" ? 256 : 2 ** 32));
    return least + Math.floor(next() * (9 - least));
  };
  const { words, decode } = storages[dtype];
  const bytes = encoded(Float64Array.from({ length: count }, one), dtype);
  return Float64Array.from(words(bytes.buffer), decode);
}

/** The shape of an input as the call names it. */
function shapeOf({ repeats, without = 0 }: InputCase, shape: readonly number[]): readonly number[] {
  return shape.map((extent, axis) => (repeats[axis] ? 1 : extent)).slice(without);
}

/** Elements per step along each axis of the whole shape. */
function stridesOf(input: InputCase, shape: readonly number[]): readonly number[] {
  const own = shapeOf(input, shape);
  return shape.map((_, axis) => {
    const place = axis - (input.without ?? 0);
    return place < 0 || input.repeats[axis] ? 0 : product(own.slice(place + 1));
  });
}

/** Makes the call, and compares every output with the formula. */
export async function check(context: LawContext, dtype: "f32" | "f16", value: MapCase): Promise<void> {
  const { backend, numerics } = context;
  const { shape, inputs, outputs, parameters, nodes } = value;
  const n = product(shape);
  const data = inputs.map((input, i) =>
    draw(product(shapeOf(input, shape)), input.dtype, value.numbers, value.seed + i),
  );
  // The name of the operand in which each output lies.
  const homes = outputs.map((_, j) => {
    const over = inputs.findIndex(({ under }) => under === j);
    return over === -1 ? `outputs[${j}]` : `inputs[${over}]`;
  });
  const everywhere = Array.from({ length: n }, (_, i) => i);
  const operands: Record<string, Float64Array> = {};
  const dtypes: Record<string, DType> = {};
  for (const [i, input] of inputs.entries()) {
    operands[`inputs[${i}]`] = data[i]!;
    dtypes[`inputs[${i}]`] = input.dtype;
  }
  for (const [j, home] of homes.entries()) {
    operands[home] ??= new Float64Array(n).fill(Number.NaN);
    dtypes[home] ??= outputs[j]!.dtype;
  }
  const rest = {
    ...{ shape, nodes, results: outputs.map(({ result }) => result) },
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(dtype === "f32" ? {} : { dtype }),
    ...(inputs.every((input) => input.dtype === dtype)
      ? {}
      : { inputTypes: inputs.map((input) => input.dtype) }),
    ...(outputs.every((output) => output.dtype === dtype)
      ? {}
      : { outputTypes: outputs.map((output) => output.dtype) }),
    ...(inputs.every((input) => !input.without && !input.repeats.includes(true))
      ? {}
      : { inputShapes: inputs.map((input) => shapeOf(input, shape)) }),
  };
  const got = await executeAll<string>({
    ...{ backend, dtype, dtypes, operands, placement: value.placement },
    written: Object.fromEntries(homes.map((home) => [home, everywhere])),
    call: (slices: Readonly<Record<string, Slice>>) => {
      const named = {
        ...Object.fromEntries(inputs.map((_, i) => [`inputs[${i}]`, slices[`inputs[${i}]`]])),
        ...Object.fromEntries(homes.map((home, j) => [`outputs[${j}]`, slices[home]])),
      };
      backend.map({ inputs: [], ...argumentsOf({ ...rest, ...named }) } as never);
    },
  });
  const expected = outputs.map(() => ({
    places: [] as number[],
    values: [] as number[],
    magnitudes: [] as number[],
  }));
  const problem = {
    ...{ shape, n, steps: typed(nodes, inputs) },
    parameters: parameters.map((number, i) => {
      const isWhole = nodes.some(
        (node) => "parameter" in node && node.parameter === i && (node.type ?? "f32") !== "f32",
      );
      return { type: "f32" as const, value: isWhole ? number : Math.fround(number) };
    }),
    inputs: inputs.map((input, i) => ({ values: data[i]!, strides: stridesOf(input, shape) })),
  };
  forEachElement(problem, numerics, (i, of) => {
    for (const [j, { dtype: to, result }] of outputs.entries()) {
      const { value: y, error } = stored(of(result), to, numerics);
      // Next to a jump, a pole or the end of the type's numbers anything may come out.
      if (error === Number.POSITIVE_INFINITY) continue;
      expected[j]!.places.push(i);
      expected[j]!.values.push(y);
      expected[j]!.magnitudes.push(error);
    }
  });
  for (const [j, home] of homes.entries())
    measure(context, [n, nodes.length], got[home]!, expected[j]!, (_value, error) => error);
}
