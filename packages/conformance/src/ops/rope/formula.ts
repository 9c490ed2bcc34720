import type { FloatType, Numerics, RopeProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { epsilon as eps, storage, type Tolerance, underflow } from "../../tolerance.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";

/** The shape of a problem. */
export type RopeShape = Omit<
  RopeProblem<unknown>,
  "dtype" | "input" | "output" | "cos" | "sin" | "positions"
>;

export interface RopeInputs {
  readonly input: Float64Array;
  readonly cos: Float64Array;
  readonly sin: Float64Array;
  readonly positions?: Float64Array | undefined;
}

/**
 * The magnitude of a result is the sum of those of its two products. Each of them is rounded, and so is their sum; a copied
 * element has magnitude 0.
 */
export function rope(shape: RopeShape, { input, cos, sin, positions }: RopeInputs, emit: Emit): void {
  const { kind, batch, heads, rows, size, rotated, length, inverse } = shape;
  const half = rotated / 2;
  const sign = inverse ? -1 : 1;
  const placeOf = ([ofBatch, ofHead, ofRow]: RopeShape["inputStrides"], b: number, h: number, r: number) =>
    b * ofBatch + h * ofHead + r * ofRow;
  for (let b = 0; b < batch; b++)
    for (let h = 0; h < heads; h++)
      for (let r = 0; r < rows; r++) {
        const from = placeOf(shape.inputStrides, b, h, r);
        const to = placeOf(shape.outputStrides, b, h, r);
        const position = positions === undefined ? shape.start + r : positions[b * shape.positionStride + r]!;
        const isFound = position >= 0 && position < length;
        for (let i = 0; i < half; i++) {
          const [first, second] = kind === "halves" ? [i, i + half] : [2 * i, 2 * i + 1];
          const [x, y] = [input[from + first]!, input[from + second]!];
          const c = isFound ? cos[position * half + i]! : 0;
          const s = isFound ? sign * sin[position * half + i]! : 0;
          emit(to + first, x * c - y * s, Math.abs(x * c) + Math.abs(y * s));
          emit(to + second, x * s + y * c, Math.abs(x * s) + Math.abs(y * c));
        }
        for (let i = rotated; i < size; i++) emit(to + i, input[from + i]!, 0);
      }
}

/** Two roundings, of a product and of the sum, for the magnitudes above. */
export function ropeTolerance(dtype: FloatType, numerics: Numerics): Tolerance {
  return (value, magnitude) =>
    magnitude === 0 ? 0 : 2 * eps * magnitude + underflow(3, numerics) + storage(dtype, value, numerics);
}

export const evaluate: Evaluate<RopeProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, positions } = problem;
  const inputs = {
    input: memory.read(problem.input, dtype),
    cos: memory.read(problem.cos, "f32"),
    sin: memory.read(problem.sin, "f32"),
    positions: positions && memory.read(positions, "i32"),
  };
  const tolerance = numerics && ropeTolerance(dtype, numerics);
  rope(problem, inputs, emitting(memory.write(problem.output, dtype), tolerance));
};
