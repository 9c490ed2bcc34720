import type { SortProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

export type SortShape = Pick<SortProblem<unknown>, "outer" | "length" | "inner" | "descending" | "count">;

/** Whether x comes before y in a line, if it is not equal: NaN after all numbers, which equal zeros of either sign. */
export function compare(x: number, y: number, descending: boolean): number {
  const [a, b] = [Number.isNaN(x), Number.isNaN(y)];
  if (a || b) return Number(a) - Number(b);
  const order = x < y ? -1 : x > y ? 1 : 0;
  return descending ? -order : order;
}

/** Elements in order, and their places; both at (o * count + j) * inner + i. */
export function sort(
  { outer, length, inner, descending, count }: SortShape,
  input: Float64Array,
  values: Emit | undefined,
  indices: Emit | undefined,
): void {
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const at = (j: number) => input[(o * length + j) * inner + i]!;
      // Sorts of JavaScript are stable.
      const places = Array.from({ length }, (_, j) => j).sort((a, b) => compare(at(a), at(b), descending));
      for (const [j, place] of places.slice(0, count).entries()) {
        const to = (o * count + j) * inner + i;
        values?.(to, at(place), 0);
        indices?.(to, place, 0);
      }
    }
}

/** Elements and places are exact. */
export const evaluate: Evaluate<SortProblem<ReferenceMemory>> = (problem, memory) => {
  const { dtype, input, values, indices } = problem;
  const elements = memory.read(input, dtype);
  sort(
    problem,
    elements,
    values && emitting(memory.write(values, dtype), undefined),
    indices && emitting(memory.write(indices, "i32"), undefined),
  );
};
