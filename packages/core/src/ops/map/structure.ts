import type { DType } from "../../dtype.js";
import { type MapStep, textOf } from "./nodes.js";

/** An expression without what its results do not need. */
export interface Structure {
  readonly steps: readonly MapStep[];
  /** The step of each output. */
  readonly results: readonly number[];
  /** For each input of the problem, which one of the call it is. */
  readonly inputs: readonly number[];
  /** The same for parameters. */
  readonly parameters: readonly number[];
  /** As in a problem. */
  readonly key: string;
}

/**
 * Drops the nodes that no result needs, makes one of nodes that are the same, and numbers inputs and parameters in the
 * order of their first use. Steps use only earlier ones, as before. `dtypes` are those of the inputs.
 */
export function structureOf(
  nodes: readonly MapStep[],
  results: readonly number[],
  dtypes: readonly DType[],
  outputTypes: readonly DType[],
): Structure {
  const needed = neededBy(nodes, results);
  const steps: MapStep[] = [];
  const texts = new Map<string, number>();
  const inputs: number[] = [];
  const parameters: number[] = [];
  const orderedTypes: DType[] = [];
  const moved = new Array<number>(nodes.length).fill(0);
  for (const [i, node] of nodes.entries()) {
    if (!needed[i]) continue;
    const step = renumbered(node, moved, inputs, parameters);
    if (step.step === "input") orderedTypes[step.input] = dtypes[inputs[step.input]!]!;
    const text = textOf(step, orderedTypes);
    const same = texts.get(text);
    moved[i] = same ?? steps.length;
    if (same !== undefined) continue;
    texts.set(text, steps.length);
    steps.push(step);
  }
  const ends = results.map((result) => moved[result]!);
  const key = `${[...texts.keys()].join(";")}>${outputTypes.map((type, i) => `${ends[i]} ${type}`).join(",")}`;
  return { steps, inputs, parameters, results: ends, key };
}

function neededBy(nodes: readonly MapStep[], results: readonly number[]): readonly boolean[] {
  const needed = new Array<boolean>(nodes.length).fill(false);
  for (const result of results) needed[result] = true;
  for (let i = nodes.length - 1; i >= 0; i--)
    if (needed[i]) for (const operand of operandsOfStep(nodes[i]!)) needed[operand] = true;
  return needed;
}

/** Returns the steps that a step uses. */
export function operandsOfStep(step: MapStep): readonly number[] {
  switch (step.step) {
    case "unary":
    case "convert":
      return [step.x];
    case "binary":
      return [step.a, step.b];
    case "select":
      return [step.condition, step.a, step.b];
    default:
      return [];
  }
}

function renumbered(
  node: MapStep,
  moved: readonly number[],
  inputs: number[],
  parameters: number[],
): MapStep {
  switch (node.step) {
    case "input":
      return { ...node, input: placeIn(inputs, node.input) };
    case "parameter":
      return { ...node, parameter: placeIn(parameters, node.parameter) };
    case "unary":
    case "convert":
      return { ...node, x: moved[node.x]! };
    case "binary":
      return { ...node, a: moved[node.a]!, b: moved[node.b]! };
    case "select":
      return { ...node, condition: moved[node.condition]!, a: moved[node.a]!, b: moved[node.b]! };
    default:
      return node;
  }
}

/** Returns the place of a number in a list, to which it is added if it is not there yet. */
function placeIn(list: number[], wanted: number): number {
  const place = list.indexOf(wanted);
  return place === -1 ? list.push(wanted) - 1 : place;
}
