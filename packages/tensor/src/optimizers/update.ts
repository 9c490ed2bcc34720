import type { BinaryKind, DeviceHandle, MapElementType, MapNode, Operand, UnaryKind } from "@backplane/core";
import { listed, refuse } from "../errors.js";
import { contiguous } from "../lazy/fusion.js";
import type { Tensor } from "../tensor.js";
import { placeOf, undoneOnFailure, Value } from "../value.js";
import { sameShape } from "../view/shape.js";

/** Writes the nodes of one `map`. Each method returns the number of a node. */
export class Formula {
  readonly nodes: MapNode[] = [];

  input(input: number): number {
    return this.#add({ input });
  }

  parameter(parameter: number): number {
    return this.#add({ parameter });
  }

  binary(binary: BinaryKind, a: number, b: number): number {
    return this.#add({ binary, a, b });
  }

  unary(unary: UnaryKind, x: number): number {
    return this.#add({ unary, x });
  }

  #add(node: MapNode): number {
    return this.nodes.push(node) - 1;
  }
}

/** How a step changes a parameter and what belongs to it. Inputs: the parameter, its gradient, the states. */
export interface UpdateFormula {
  readonly nodes: readonly MapNode[];
  /** The nodes of the new parameter and of each new state. */
  readonly results: readonly number[];
}

/**
 * Changes a parameter and its states by one `map`, in place. If somebody else still has the old elements, such as a tape
 * or a view, they stay theirs and the tensor gets memory of its own.
 */
export function update(
  { nodes, results }: UpdateFormula,
  parameter: Tensor,
  gradient: Tensor,
  states: readonly Tensor[],
  numbers: readonly number[],
): void {
  const changed = [parameter, ...states];
  const inputs: Operand[] = [];
  for (const { value } of [parameter, gradient, ...states]) inputs.push(contiguous(value));
  const targets = undoneOnFailure(() => {
    const values = changed.map(({ value }) =>
      isOwn(value) ? value : Value.allocate(value.backend, value.dtype, value.shape),
    );
    parameter.backend.map({
      shape: [parameter.size],
      inputs,
      inputTypes: [parameter, gradient, ...states].map(({ dtype }) => dtype as MapElementType),
      parameters: numbers,
      nodes,
      results,
      outputs: values.map((value) => placeOf(value) as DeviceHandle),
      outputTypes: changed.map(({ dtype }) => dtype as MapElementType),
    });
    return values;
  });
  for (const [i, tensor] of changed.entries())
    if (targets[i] !== tensor.value) tensor.replaceValue(targets[i]!);
}

/** Throws unless a gradient belongs to a parameter. */
export function checkGradient(parameter: Tensor, gradient: Tensor, i: number): void {
  if (!sameShape(parameter.shape, gradient.shape) || parameter.dtype !== gradient.dtype)
    refuse(
      "step",
      `gradients[${i}]`,
      `is ${String(gradient)}; allowed: ${parameter.dtype} ${listed(parameter.shape)}, as its parameter`,
    );
}

/** Whether nobody else has the elements. */
function isOwn({ references, storage }: Value): boolean {
  return references === 1 && storage?.references === 1;
}
