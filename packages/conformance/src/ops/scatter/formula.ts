import { dtypeBytes, type FloatType, type ScatterKind, type ScatterProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon as eps, storage, underflow } from "../../tolerance.js";
import type { Evaluate } from "../operation.js";

/** The shape of a problem. */
export type ScatterShape = Omit<ScatterProblem<unknown>, "dtype" | "kind" | "indices" | "updates" | "output">;

/** Calls `visit` for each update, in order, with its place, that of its index, and the element of an index in range. */
export function forEachUpdate(
  { outer, length, count, inner, outerStride, axisStride, innerStride }: ScatterShape,
  visit: (from: number, index: number, to: (index: number) => number | undefined) => void,
): void {
  let from = 0;
  for (let o = 0; o < outer; o++)
    for (let j = 0; j < count; j++)
      for (let i = 0; i < inner; i++) {
        const to = (index: number) =>
          index >= 0 && index < length ? (o * length + index) * inner + i : undefined;
        visit(from++, o * outerStride + j * axisStride + i * innerStride, to);
      }
}

export const combine: Readonly<Record<ScatterKind, (x: number, update: number) => number>> = {
  set: (_, update) => update,
  add: (x, update) => x + update,
  mul: (x, update) => x * update,
  max: Math.max,
  min: Math.min,
};

/** Products of i32 and u32 may have more bits than a double. */
function multiplied(x: number, update: number): number {
  return Number(BigInt.asIntN(32, BigInt(x) * BigInt(update)));
}

/**
 * Each sum and product is rounded, and may be stored: units of the sum of magnitudes, and for products, of the result.
 * Values that are set or compared are exact.
 */
export const evaluate: Evaluate<ScatterProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, kind } = problem;
  const isInteger = dtype === "i32" || dtype === "u32";
  const indices = memory.read(problem.indices, "i32");
  if (kind === "set" && memory.bytes !== undefined) {
    // Of numbers, a NaN would lose its bits.
    const size = dtypeBytes[dtype];
    const [source, target] = [memory.bytes(problem.updates), memory.bytes(problem.output)];
    forEachUpdate(problem, (from, at, to) => {
      const place = to(indices[at]!);
      if (place !== undefined) target.set(source.subarray(from * size, (from + 1) * size), place * size);
    });
    return;
  }
  const updates = memory.read(problem.updates, dtype);
  const values = memory.read(problem.output, dtype);
  const apply = isInteger && kind === "mul" ? multiplied : combine[kind];
  const steps = new Map<number, { value: number; magnitude: number; count: number }>();
  forEachUpdate(problem, (from, at, to) => {
    const place = to(indices[at]!);
    if (place === undefined) return;
    const step = steps.get(place) ?? { value: values[place]!, magnitude: Math.abs(values[place]!), count: 0 };
    const value = apply(step.value, updates[from]!);
    // In order, each rounded, as `scatter` promises of f32.
    step.value = isInteger ? value : Math.fround(value);
    step.magnitude = kind === "add" ? step.magnitude + Math.abs(updates[from]!) : Math.abs(step.value);
    step.count++;
    steps.set(place, step);
  });
  const write = memory.write(problem.output, dtype);
  const rounds = kind === "add" || kind === "mul";
  // The other elements too, as they were: a result has an expectation of each element.
  for (const [place, value] of values.entries()) {
    const step = steps.get(place);
    if (step === undefined) {
      if (numerics !== undefined) write(place, value, 0);
      continue;
    }
    const allowed =
      numerics === undefined || !rounds || isInteger
        ? 0
        : step.count *
          (eps * step.magnitude +
            underflow(1, numerics) +
            storage(dtype as FloatType, step.magnitude, numerics));
    write(place, step.value, allowed);
  }
};
