import type { DType } from "../../dtype.js";
import { describe } from "../../handles.js";
import { type BinaryKind, binaryKinds, binaryResultType } from "../binary/index.js";
import type { Checks } from "../checks.js";
import { type UnaryKind, unaryKinds, unaryResultType } from "../unary/index.js";

/**
 * The element types in which expressions compute. u8 holds truth values: what comparisons give, and what selects.
 * f16 is none of them: inputs of it become f32, and f32 is rounded where the output is f16.
 */
export type MapType = "f32" | "i32" | "u32" | "u8";

export const mapTypes: readonly MapType[] = ["f32", "i32", "u32", "u8"];

/** Types of elements in memory. */
export type MapElementType = MapType | "f16";

/** The types with arithmetic, and of parameters. */
export type MapNumberType = "f32" | "i32" | "u32";

/**
 * A node of an expression. `x`, `a`, `b` and `select` are numbers of nodes before it in the list.
 *
 * - `input`: an element of an input, in f32 if that is f16.
 * - `parameter`: a number of the call; f32 unless the node has a type.
 * - `constant`: a number that is part of the expression; f32 unless the node has a type.
 * - `index`: the place along an axis of the shape, i32.
 * - `unary`, `binary`: as the operations of these names; comparisons and tests give u8.
 * - `select`: a where the u8 is not 0, else b.
 * - `convert`: as `copy` converts.
 */
export type MapNode =
  | { readonly input: number }
  | { readonly parameter: number; readonly type?: MapNumberType }
  | { readonly constant: number; readonly type?: MapType }
  | { readonly index: number }
  | { readonly unary: UnaryKind; readonly x: number }
  | { readonly binary: BinaryKind; readonly a: number; readonly b: number }
  | { readonly select: number; readonly a: number; readonly b: number }
  | { readonly convert: MapType; readonly x: number };

/** A node of a problem, with its type. Numbers of nodes are those of earlier steps. */
export type MapStep =
  | { readonly step: "input"; readonly type: MapType; readonly input: number }
  | { readonly step: "parameter"; readonly type: MapNumberType; readonly parameter: number }
  | { readonly step: "constant"; readonly type: MapType; readonly value: number }
  | { readonly step: "index"; readonly type: "i32"; readonly axis: number }
  | {
      readonly step: "unary";
      readonly type: MapType;
      /** The type of x. */
      readonly of: MapType;
      readonly kind: UnaryKind;
      readonly x: number;
    }
  | {
      readonly step: "binary";
      readonly type: MapType;
      /** The type of a and b. */
      readonly of: MapType;
      readonly kind: BinaryKind;
      readonly a: number;
      readonly b: number;
    }
  | {
      readonly step: "select";
      readonly type: MapType;
      readonly condition: number;
      readonly a: number;
      readonly b: number;
    }
  | { readonly step: "convert"; readonly type: MapType; readonly from: MapType; readonly x: number };

/** The type in which an element of memory is computed. */
export function computedAs(dtype: MapElementType): MapType {
  return dtype === "f16" ? "f32" : dtype;
}

/** What there is besides nodes, as far as they may refer to it. */
export interface NodeContext {
  readonly inputTypes: readonly MapElementType[];
  readonly parameterCount: number;
  readonly rank: number;
}

/** Names the types for which a kind has results. */
function typesWith(resultType: (type: MapType) => MapType | undefined): string {
  return mapTypes.filter((type) => resultType(type) !== undefined).join(", ");
}

const forms: Readonly<Record<string, readonly string[]>> = {
  input: ["input"],
  parameter: ["parameter", "type"],
  constant: ["constant", "type"],
  index: ["index"],
  unary: ["unary", "x"],
  binary: ["binary", "a", "b"],
  select: ["select", "a", "b"],
  convert: ["convert", "x"],
};

const formNames = Object.keys(forms);

/** Returns the node with the types that follow from the nodes before it. Fails if it is wrong, and names it. */
export function stepOf(
  checks: Checks,
  node: MapNode,
  place: number,
  before: readonly MapStep[],
  context: NodeContext,
): MapStep {
  const name = `nodes[${place}]`;
  checks.object(name, node);
  checkForm(checks, name, node);
  const earlier = (field: string, at: unknown): MapStep => {
    if (!Number.isSafeInteger(at) || (at as number) < 0 || (at as number) >= place)
      return checks.fail(
        `${name}.${field}`,
        `is ${describe(at)}; allowed: ${place === 0 ? "none, for no node is before it" : `earlier nodes, 0 to ${place - 1}`}`,
      );
    return before[at as number]!;
  };
  const listed = (field: string, at: unknown, count: number, what: string): number => {
    if (!Number.isSafeInteger(at) || (at as number) < 0 || (at as number) >= count)
      checks.fail(
        `${name}.${field}`,
        `is ${describe(at)}; allowed: ${count === 0 ? `none, for there are no ${what}` : `0 to ${count - 1}, as there are ${count} ${what}`}`,
      );
    return at as number;
  };

  if ("input" in node) {
    const input = listed("input", node.input, context.inputTypes.length, "inputs");
    return { step: "input", type: computedAs(context.inputTypes[input]!), input };
  }
  if ("unary" in node) {
    const kind = checks.oneOf(`${name}.unary`, node.unary, unaryKinds);
    const x = earlier("x", node.x);
    const resultType = (of: MapType): MapType | undefined => unaryResultType(kind, of);
    const type = resultType(x.type);
    if (type === undefined)
      return wrongType(checks, `${name}.x`, node.x, x, `${typesWith(resultType)} for ${kind}`);
    return { step: "unary", type, of: x.type, kind, x: node.x };
  }
  if ("binary" in node) {
    const kind = checks.oneOf(`${name}.binary`, node.binary, binaryKinds);
    const { type: of } = earlier("a", node.a);
    const b = earlier("b", node.b);
    const resultType = (type: MapType): MapType | undefined => binaryResultType(kind, type);
    const type = resultType(of);
    if (type === undefined)
      return wrongType(checks, `${name}.a`, node.a, before[node.a]!, `${typesWith(resultType)} for ${kind}`);
    if (b.type !== of) wrongType(checks, `${name}.b`, node.b, b, `${of}, as a is`);
    return { step: "binary", type, of, kind, a: node.a, b: node.b };
  }
  if ("select" in node) {
    const condition = earlier("select", node.select);
    const { type } = earlier("a", node.a);
    const b = earlier("b", node.b);
    if (condition.type !== "u8")
      wrongType(checks, `${name}.select`, node.select, condition, "u8, as comparisons give it");
    if (b.type !== type) wrongType(checks, `${name}.b`, node.b, b, `${type}, as a is`);
    return { step: "select", type, condition: node.select, a: node.a, b: node.b };
  }
  if ("convert" in node) {
    const type = checks.oneOf(`${name}.convert`, node.convert, mapTypes);
    const { type: from } = earlier("x", node.x);
    return { step: "convert", type, from, x: node.x };
  }
  if ("constant" in node) {
    const type = node.type === undefined ? "f32" : checks.oneOf(`${name}.type`, node.type, mapTypes);
    return { step: "constant", type, value: checks.scalar(`${name}.constant`, node.constant, type) };
  }
  if ("parameter" in node) {
    const parameter = listed("parameter", node.parameter, context.parameterCount, "parameters");
    const type = node.type === undefined ? "f32" : checks.oneOf(`${name}.type`, node.type, numberTypes);
    return { step: "parameter", type, parameter };
  }
  return { step: "index", type: "i32", axis: listed("index", node.index, context.rank, "axes") };
}

const numberTypes: readonly MapNumberType[] = ["f32", "i32", "u32"];

/** Fails if a node has not exactly the fields of one form. */
function checkForm(checks: Checks, name: string, node: MapNode): void {
  const given = Object.keys(node);
  const form = given.find((field) => field in forms && Object.hasOwn(forms, field));
  if (form === undefined) {
    const unknown = given.length === 0 ? "has no fields" : `has the fields ${given.join(", ")}`;
    checks.fail(name, `${unknown}; allowed: one of ${formNames.join(", ")}`);
  }
  const known = forms[form]!;
  for (const field of given)
    if (!known.includes(field))
      checks.fail(`${name}.${field}`, `is unknown of a node with ${form}; allowed: ${known.join(", ")}`);
}

function wrongType(checks: Checks, argument: string, place: number, found: MapStep, wanted: string): never {
  return checks.fail(
    argument,
    `is node ${place}, which gives ${found.type}; allowed: ${wanted} (use a node { convert: type, x: ${place} })`,
  );
}

/** Returns the text of a node. Equal texts mean equal values, whatever the parameters and sizes. */
export function textOf(step: MapStep, dtypes: readonly DType[]): string {
  switch (step.step) {
    case "input":
      return `input ${step.input} ${dtypes[step.input]}`;
    case "parameter":
      return `parameter ${step.parameter} ${step.type}`;
    case "constant":
      return `constant ${Object.is(step.value, -0) ? "-0" : step.value} ${step.type}`;
    case "index":
      return `index ${step.axis}`;
    case "unary":
      return `${step.kind} ${step.of} ${step.x}`;
    case "binary":
      return `${step.kind} ${step.of} ${step.a} ${step.b}`;
    case "select":
      return `select ${step.condition} ${step.a} ${step.b}`;
    case "convert":
      return `${step.from} to ${step.type} ${step.x}`;
  }
}
