import { binaryKinds } from "../binary/index.js";
import type { Checks } from "../checks.js";
import { isFixed } from "../fixed.js";
import { unaryKinds } from "../unary/index.js";
import {
  computedAs,
  type MapElementType,
  type MapNode,
  type MapNumberType,
  type MapStep,
  mapTypes,
  stepOf,
} from "./nodes.js";
import { type Structure, structureOf } from "./structure.js";

/** What a call says beside its operands and numbers. */
export interface Expression {
  readonly nodes: readonly MapNode[];
  readonly results: readonly unknown[];
  readonly inputTypes: readonly MapElementType[];
  readonly outputTypes: readonly MapElementType[];
  readonly parameterCount: number;
  readonly rank: number;
}

/** A checked expression. */
export interface Prepared {
  /** All nodes with their types; steps count along the axes of the call. */
  readonly steps: readonly MapStep[];
  readonly results: readonly number[];
  /** The type that nodes take each parameter for; f32 if none does. */
  readonly parameterTypes: readonly MapNumberType[];
  /** Which axes are counted along. */
  readonly counted: readonly boolean[];
  /** Undefined: it depends on how axes are merged, for some are counted along. */
  readonly structure: Structure | undefined;
}

/** Checked expressions by their text: checking one takes ten times as long as everything else in a small call. */
const known = new Map<string, Prepared>();

/** More are hardly in use at the same time. */
const mostKnown = 1024;

/**
 * The same by their lists of nodes, if nobody can change these any more: the list and all nodes are frozen. Making the
 * text takes half of a small call. A list may be used with few types and results.
 */
const knownFrozen = new WeakMap<readonly MapNode[], { expression: Expression; prepared: Prepared }[]>();

/** Checks an expression. Fails if a node or result is wrong, and names it. */
export function prepare(checks: Checks, expression: Expression): Prepared {
  const { nodes } = expression;
  if (!Object.isFrozen(nodes)) return prepareText(checks, expression);
  const uses = knownFrozen.get(nodes);
  if (uses !== undefined)
    for (let i = 0; i < uses.length; i++)
      if (isSame(uses[i]!.expression, expression)) return uses[i]!.prepared;
  const prepared = prepareText(checks, expression);
  if (isFixed(nodes) && nodes.every((node) => isFixed(node))) {
    const { results, inputTypes, outputTypes } = expression;
    const kept = {
      ...expression,
      results: [...results],
      inputTypes: [...inputTypes],
      outputTypes: [...outputTypes],
    };
    if (uses === undefined) knownFrozen.set(nodes, [{ expression: kept, prepared }]);
    else if (uses.length < mostUses) uses.push({ expression: kept, prepared });
  }
  return prepared;
}

/** How many uses of one list are kept. */
const mostUses = 8;

/** Whether two expressions with the same nodes are the same. */
function isSame(a: Expression, b: Expression): boolean {
  return (
    a.rank === b.rank &&
    a.parameterCount === b.parameterCount &&
    hasSameEntries(a.inputTypes, b.inputTypes) &&
    hasSameEntries(a.outputTypes, b.outputTypes) &&
    hasSameEntries(a.results, b.results)
  );
}

function hasSameEntries(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

function prepareText(checks: Checks, expression: Expression): Prepared {
  const text = textOfCall(expression);
  const found = text === undefined ? undefined : known.get(text);
  if (found !== undefined) return found;
  const prepared = prepareAnew(checks, expression);
  if (known.size >= mostKnown) known.clear();
  if (text !== undefined) known.set(text, prepared);
  return prepared;
}

function prepareAnew(checks: Checks, expression: Expression): Prepared {
  const { nodes, inputTypes, outputTypes, parameterCount, rank } = expression;
  const steps: MapStep[] = [];
  const context = { inputTypes, parameterCount, rank };
  for (let i = 0; i < nodes.length; i++) steps.push(stepOf(checks, nodes[i]!, i, steps, context));
  const results = Array.from(expression.results, (result, i) =>
    resultOf(checks, i, result, steps, outputTypes[i]!),
  );
  const counted = new Array<boolean>(rank).fill(false);
  for (const step of steps) if (step.step === "index") counted[step.axis] = true;
  const structure = counted.includes(true) ? undefined : structureOf(steps, results, inputTypes, outputTypes);
  return {
    steps,
    results,
    parameterTypes: parameterTypesOf(checks, steps, parameterCount),
    counted,
    structure,
  };
}

const unarySet: ReadonlySet<string> = new Set(unaryKinds);
const binarySet: ReadonlySet<string> = new Set(binaryKinds);
const typeSet: ReadonlySet<string> = new Set(mapTypes);

/** Returns a text that no other expression has; undefined if there may be something wrong with it. */
function textOfCall({
  nodes,
  results,
  inputTypes,
  outputTypes,
  parameterCount,
  rank,
}: Expression): string | undefined {
  let text = `${rank} ${parameterCount}`;
  for (let i = 0; i < inputTypes.length; i++) text += ` ${inputTypes[i]}`;
  text += ">";
  for (let i = 0; i < outputTypes.length; i++) {
    const result = results[i];
    if (typeof result !== "number") return undefined;
    text += `${result} ${outputTypes[i]} `;
  }
  for (let i = 0; i < nodes.length; i++) {
    const node = nodes[i] as unknown;
    if (typeof node !== "object" || node === null) return undefined;
    const part = textOfNode(node as Fields);
    if (part === undefined) return undefined;
    text += part;
  }
  return text;
}

type Fields = Readonly<Record<string, unknown>>;

/** Kinds and types that are known have no separators in their names; numbers have none either. */
function textOfNode(node: Fields): string | undefined {
  let fields = 0;
  for (const _ in node) fields++;
  const { binary } = node;
  if (binary !== undefined) {
    const { a, b } = node;
    const isKnown = fields === 3 && binarySet.has(binary as string);
    return isKnown && typeof a === "number" && typeof b === "number" ? `;${binary} ${a} ${b}` : undefined;
  }
  const { input } = node;
  if (input !== undefined) return fields === 1 && typeof input === "number" ? `;i${input}` : undefined;
  const { unary } = node;
  if (unary !== undefined) {
    const { x } = node;
    const isKnown = fields === 2 && unarySet.has(unary as string);
    return isKnown && typeof x === "number" ? `;${unary} ${x}` : undefined;
  }
  const { parameter, constant, type } = node;
  if (parameter !== undefined || constant !== undefined) {
    const value = parameter ?? constant;
    if (fields !== (type === undefined ? 1 : 2) || typeof value !== "number") return undefined;
    if (type !== undefined && !typeSet.has(type as string)) return undefined;
    const sign = Object.is(value, -0) ? "-" : "";
    return `;${parameter === undefined ? "c" : "p"}${sign}${value} ${type ?? "f32"}`;
  }
  const { select, convert, index } = node;
  if (select !== undefined) {
    const { a, b } = node;
    const isWhole =
      fields === 3 && typeof select === "number" && typeof a === "number" && typeof b === "number";
    return isWhole ? `;?${select} ${a} ${b}` : undefined;
  }
  if (convert !== undefined) {
    const { x } = node;
    return fields === 2 && typeSet.has(convert as string) && typeof x === "number"
      ? `;to ${convert} ${x}`
      : undefined;
  }
  return fields === 1 && typeof index === "number" ? `;at${index}` : undefined;
}

/** Returns the step of an output. Fails if there is no such step, or if it gives another type. */
function resultOf(
  checks: Checks,
  place: number,
  given: unknown,
  steps: readonly MapStep[],
  dtype: MapElementType,
): number {
  const result = checks.place("results", given, steps.length, place);
  const { type } = steps[result]!;
  const wanted = computedAs(dtype);
  if (type !== wanted)
    checks.fail(
      `results[${place}]`,
      `is node ${result}, which gives ${type}; allowed: nodes that give ${wanted}, for outputs[${place}] is ` +
        `${dtype} (use a node { convert: "${wanted}", x: ${result} })`,
    );
  return result;
}

function parameterTypesOf(
  checks: Checks,
  steps: readonly MapStep[],
  count: number,
): readonly MapNumberType[] {
  const taken = new Map<number, { readonly node: number; readonly type: MapNumberType }>();
  for (const [node, step] of steps.entries()) {
    if (step.step !== "parameter") continue;
    const { parameter, type } = step;
    const first = taken.get(parameter) ?? { node, type };
    if (first.type !== type)
      checks.fail(
        `nodes[${node}].type`,
        `is ${type}, but nodes[${first.node}] takes parameter ${parameter} for ${first.type}; allowed: one type for ` +
          "each parameter",
      );
    taken.set(parameter, first);
  }
  return Array.from({ length: count }, (_, i) => taken.get(i)?.type ?? "f32");
}
