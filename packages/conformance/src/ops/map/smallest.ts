import type { MapNode } from "@backplane/core";
import fc, { Arbitrary, type Random, type Stream, Value } from "fast-check";
import type { MapCase, OutputCase } from "./expression.js";

/**
 * The same cases, of which a failure shrinks at once to the first node that is wrong as the only result, with the nodes
 * that it needs and no others, and then to a smaller shape. A failure of several results together shrinks as it would.
 *
 * @param outputOf returns the output that holds the value of a node
 */
export function shrinkingToNodes(
  cases: Arbitrary<MapCase>,
  outputOf: (value: MapCase, node: number) => OutputCase,
): Arbitrary<MapCase> {
  return new CasesOfNodes(cases, outputOf);
}

class CasesOfNodes extends Arbitrary<MapCase> {
  readonly #cases: Arbitrary<MapCase>;
  readonly #outputOf: (value: MapCase, node: number) => OutputCase;

  constructor(cases: Arbitrary<MapCase>, outputOf: (value: MapCase, node: number) => OutputCase) {
    super();
    this.#cases = cases;
    this.#outputOf = outputOf;
  }

  override generate(random: Random, bias: number | undefined): Value<MapCase> {
    return drawn(this.#cases.generate(random, bias));
  }

  override canShrinkWithoutContext(value: unknown): value is MapCase {
    return this.#cases.canShrinkWithoutContext(value);
  }

  override shrink(value: MapCase, context: unknown): Stream<Value<MapCase>> {
    // What is left of one node has no node before it that is wrong.
    if (context === alone) return fc.stream(smallerShapes(value));
    return fc.stream(this.#nodesOf(value)).join(this.#cases.shrink(value, context).map(drawn));
  }

  *#nodesOf(value: MapCase): Generator<Value<MapCase>> {
    for (let node = 0; node < value.nodes.length; node++)
      yield new Value(onlyNode(value, node, this.#outputOf(value, node)), alone);
  }
}

const alone = Symbol("a case of one node");

/** The case without axes, if none is counted along, or with one of them shorter. */
function* smallerShapes(value: MapCase): Generator<Value<MapCase>> {
  const { shape, nodes, inputs } = value;
  if (shape.length > 0 && !nodes.some((node) => "index" in node)) {
    const plain = inputs.map(({ dtype }) => ({ dtype, repeats: [] }));
    yield new Value({ ...value, shape: [], inputs: plain }, alone);
  }
  for (const [axis, extent] of shape.entries())
    for (const shorter of new Set([1, extent >> 1, extent - 1]))
      if (shorter >= 1 && shorter < extent)
        yield new Value({ ...value, shape: shape.with(axis, shorter) }, alone);
}

/** Hands on what the drawn value shrinks with. */
function drawn(value: Value<MapCase>): Value<MapCase> {
  return new Value(value.value_, value.context);
}

/** The case with one node as its result, and the nodes that it needs. */
function onlyNode(value: MapCase, result: number, output: OutputCase): MapCase {
  const needed = new Set<number>([result]);
  for (let place = result; place >= 0; place--)
    if (needed.has(place)) for (const operand of operandsOf(value.nodes[place]!)) needed.add(operand);
  const kept = [...needed].sort((a, b) => a - b);
  const nodes = kept.map((place) => moved(value.nodes[place]!, (operand) => kept.indexOf(operand)));
  return { ...value, nodes, outputs: [{ ...output, result: kept.length - 1 }] };
}

/** The fields of nodes that name other ones. */
const references = ["x", "a", "b", "select"] as const;

export function operandsOf(node: MapNode): readonly number[] {
  const fields = node as Partial<Record<(typeof references)[number], number>>;
  return references.flatMap((name) => fields[name] ?? []);
}

function moved(node: MapNode, to: (operand: number) => number): MapNode {
  const fields = node as Partial<Record<(typeof references)[number], number>>;
  const named = references.filter((name) => fields[name] !== undefined);
  return { ...node, ...Object.fromEntries(named.map((name) => [name, to(fields[name]!)])) } as MapNode;
}
