import type { ArgReduceProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

export type ArgReduceShape = Pick<ArgReduceProblem<unknown>, "kind" | "outer" | "length" | "inner">;

/** The result of (o, i), at o * inner + i: a place among the elements (o, j, i), at (o * length + j) * inner + i. */
export function argReduce(
  { kind, outer, length, inner }: ArgReduceShape,
  input: Float64Array,
  emit: Emit,
): void {
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const at = (j: number) => input[(o * length + j) * inner + i]!;
      let place = 0;
      for (let j = 1; j < length && !Number.isNaN(at(place)); j++) {
        const [x, best] = [at(j), at(place)];
        if (Number.isNaN(x) || (kind === "argMax" ? x > best : x < best)) place = j;
      }
      emit(o * inner + i, place, 0);
    }
}

/** Places are exact. */
export const evaluate: Evaluate<ArgReduceProblem<ReferenceMemory>> = (problem, memory) => {
  const { dtype, input, output } = problem;
  argReduce(problem, memory.read(input, dtype), emitting(memory.write(output, "i32"), undefined));
};
