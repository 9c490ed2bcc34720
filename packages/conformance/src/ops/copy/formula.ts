import { type CopyProblem, type DType, dtypeBytes, elementTypes } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Evaluate } from "../operation.js";

/** Returns the number that an element of one type becomes in another: exactly this, on every backend. */
export function converted(value: number, from: DType, to: DType): number {
  const { range, toBits, fromBits } = elementTypes[to];
  if (range === undefined || elementTypes[from].range !== undefined) return fromBits(toBits(value));
  if (Number.isNaN(value)) return 0;
  const [least, largest] = range;
  // Not -0.
  return Math.min(Math.max(Math.trunc(value), least), largest) + 0;
}

/** The shape of a copy, with a stride for each axis and operand. */
export type CopyPlaces = Pick<CopyProblem<unknown>, "shape" | "inputStrides" | "outputStrides"> & {
  readonly inputStart: number;
};

/** Calls `visit` with the places of each element in the input and the output. */
export function forEachPlace(places: CopyPlaces, visit: (from: number, to: number) => void): void {
  const { shape, inputStrides, outputStrides, inputStart } = places;
  const walk = (axis: number, from: number, to: number): void => {
    if (axis === shape.length) visit(from, to);
    else
      for (let i = 0; i < shape[axis]!; i++)
        walk(axis + 1, from + i * inputStrides[axis]!, to + i * outputStrides[axis]!);
  };
  walk(0, inputStart, 0);
}

/** No error is allowed. */
export const evaluate: Evaluate<CopyProblem<ReferenceMemory>> = (problem, memory) => {
  const { dtype, outputDtype, input, output } = problem;
  if (memory.bytes !== undefined && dtype === outputDtype) {
    // Of numbers, a NaN would lose its bits.
    const size = dtypeBytes[dtype];
    const [source, target] = [memory.bytes(input), memory.bytes(output)];
    forEachPlace(problem, (from, to) => {
      for (let byte = 0; byte < size; byte++) target[to * size + byte] = source[from * size + byte]!;
    });
    return;
  }
  const values = memory.read(input, dtype);
  const write = memory.write(output, outputDtype);
  forEachPlace(problem, (from, to) => write(to, converted(values[from]!, dtype, outputDtype), 0));
};
