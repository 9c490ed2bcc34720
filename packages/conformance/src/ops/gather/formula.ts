import { dtypeBytes, type GatherProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Evaluate } from "../operation.js";

/** The shape of a problem. */
export type GatherShape = Omit<GatherProblem<unknown>, "dtype" | "input" | "indices" | "output">;

/** Calls `visit` with the places of each output element, its index, and its element; undefined for an index out of range. */
export function forEachPlace(
  { outer, length, count, inner, outerStride, axisStride, innerStride }: GatherShape,
  visit: (to: number, index: number, from: (index: number) => number | undefined) => void,
): void {
  let to = 0;
  for (let o = 0; o < outer; o++)
    for (let j = 0; j < count; j++)
      for (let i = 0; i < inner; i++) {
        const from = (index: number) =>
          index >= 0 && index < length ? (o * length + index) * inner + i : undefined;
        visit(to++, o * outerStride + j * axisStride + i * innerStride, from);
      }
}

/** No error is allowed. */
export const evaluate: Evaluate<GatherProblem<ReferenceMemory>> = (problem, memory) => {
  const { dtype, input, output } = problem;
  const indices = memory.read(problem.indices, "i32");
  if (memory.bytes !== undefined) {
    // Of numbers, a NaN would lose its bits.
    const size = dtypeBytes[dtype];
    const [source, target] = [memory.bytes(input), memory.bytes(output)];
    forEachPlace(problem, (to, at, from) => {
      const place = from(indices[at]!);
      for (let byte = 0; byte < size; byte++)
        target[to * size + byte] = place === undefined ? 0 : source[place * size + byte]!;
    });
    return;
  }
  const values = memory.read(input, dtype);
  const write = memory.write(output, dtype);
  forEachPlace(problem, (to, at, from) => {
    const place = from(indices[at]!);
    write(to, place === undefined ? 0 : values[place]!, 0);
  });
};
