import { type MapStep, type MapType, operandsOfStep } from "@backplane/core";
import { halfFunctions } from "../../program/index.js";
import { binaryText } from "../binary/index.js";
import { conversionFunction, conversionFunctions } from "../copy/index.js";
import {
  arcFunctions,
  type FunctionText,
  type MathFunctionName,
  mathFunctions,
  pairFunctions,
  turnFunctions,
} from "../elementwise/index.js";
import { unaryText } from "../unary/index.js";

/** The type in which WGSL computes; of u8, the number of one byte. */
export const valueTypes: Readonly<Record<MapType, "f32" | "i32" | "u32">> = {
  ...{ f32: "f32", i32: "i32", u32: "u32", u8: "u32" },
};

/** An expression, with inputs and parameters in the order of their numbers. */
export interface ExpressionTile {
  readonly steps: readonly MapStep[];
  /** The step of each output. */
  readonly results: readonly number[];
}

/**
 * Returns the struct Results, with a member r0, r1, ... for each output, and
 * `fn expression(x0: f32, x1: i32, ..., at_0: i32, ...) -> Results` of the value of each input and the place along each
 * axis that a step counts along, with all functions that it calls. Parameters are `parameters.p0`, and so on.
 */
export function expressionText({ steps, results }: ExpressionTile): string {
  const uses = new Set<MathFunctionName>();
  const functions = new Map<string, string>();
  let converts = false;
  const lines = steps.map((step, i) => `  let v${i} = ${textOf(step)};`);
  const inputs = [...inputTypes(steps)].map(([input, type]) => `x${input}: ${valueTypes[type]}`);
  const places = countedAxes(steps).map((axis) => `at_${axis}: i32`);
  const members = results.map((result, j) => `r${j}: ${valueTypes[steps[result]!.type]}`);
  return [
    `struct Results { ${members.join(", ")} }`,
    halfFunctions,
    ...(converts ? [conversionFunctions] : []),
    mathFunctions([...uses], turnFunctions, arcFunctions, pairFunctions),
    ...functions.values(),
    `fn expression(${[...inputs, ...places].join(", ")}) -> Results {`,
    ...lines,
    `  return Results(${results.map((result) => `v${result}`).join(", ")});`,
    "}",
  ].join("\n");

  function called(name: string, text: FunctionText) {
    for (const one of text.uses) uses.add(one);
    // Several kinds may have the same helpers.
    if (text.helpers !== "") functions.set(text.helpers, text.helpers);
    functions.set(name, text.source);
    return name;
  }

  function textOf(step: MapStep): string {
    switch (step.step) {
      case "input":
        return `x${step.input}`;
      case "parameter":
        return `parameters.p${step.parameter}`;
      case "constant":
        return literal(step.value, valueTypes[step.type]);
      case "index":
        return `at_${step.axis}`;
      case "unary": {
        const name = `unary_${step.kind}_${step.of}`;
        return `${called(name, unaryText(step.kind, step.of, name))}(v${step.x})`;
      }
      case "binary": {
        const name = `binary_${step.kind}_${step.of}`;
        return `${called(name, binaryText(step.kind, step.of, name))}(v${step.a}, v${step.b})`;
      }
      case "select":
        return `select(v${step.b}, v${step.a}, v${step.condition} != 0u)`;
      case "convert": {
        converts = true;
        const name = `convert_${step.from}_${step.type}`;
        called(name, { uses: [], helpers: "", source: conversionFunction(name, step.from, step.type) });
        const bits = valueTypes[step.from] === "u32" ? `v${step.x}` : `bitcast<u32>(v${step.x})`;
        return bitcast(`${name}(${bits})`, valueTypes[step.type]);
      }
    }
  }
}

function bitcast(bits: string, type: "f32" | "i32" | "u32"): string {
  return type === "u32" ? bits : `bitcast<${type}>(${bits})`;
}

const float = new Float32Array(1);
const bitsOfFloat = new Uint32Array(float.buffer);

function literal(value: number, type: "f32" | "i32" | "u32"): string {
  if (type !== "f32") return `${type}(${value})`;
  float[0] = value;
  // All bits, which a decimal number and the sign of 0 may lose.
  return `bitcast<f32>(0x${bitsOfFloat[0]!.toString(16)}u)`;
}

/** The inputs that steps use, in order, with the types in which they compute. */
export function inputTypes(steps: readonly MapStep[]): ReadonlyMap<number, MapType> {
  const types = new Map<number, MapType>();
  for (const step of steps) if (step.step === "input") types.set(step.input, step.type);
  return new Map([...types].sort(([a], [b]) => a - b));
}

/** The axes that steps count along, in order. */
export function countedAxes(steps: readonly MapStep[]): readonly number[] {
  const axes = new Set<number>();
  for (const step of steps) if (step.step === "index") axes.add(step.axis);
  return [...axes].sort((a, b) => a - b);
}

/** The inputs that each step depends on. */
export function dependencies(steps: readonly MapStep[]): readonly ReadonlySet<number>[] {
  const sets: Set<number>[] = [];
  for (const step of steps) {
    const own = new Set<number>(step.step === "input" ? [step.input] : []);
    for (const place of operandsOfStep(step)) for (const input of sets[place]!) own.add(input);
    sets.push(own);
  }
  return sets;
}
