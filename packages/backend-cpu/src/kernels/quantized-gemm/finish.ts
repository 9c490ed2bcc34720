import { type FunctionBuilder, f32, f32x4, i32, type Local, type ModuleBuilder } from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
import { epilogueFunction, hasEpilogue } from "../epilogue/index.js";
import { mapVectors } from "../vector/index.js";

/** Columns of C, which are rows of B, that one chunk of a few rows computes. */
export const chunkColumns = 64;

/** Bytes from row to row of the results of a chunk. */
export const resultRowBytes: number = 4 * chunkColumns;

/** The parameters of kernels that say what becomes of sums. */
export const finishTypes = {
  c: "i32",
  n: "i32",
  beta: "f32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

type FinishLocals = { readonly [Name in keyof typeof finishTypes]: Local<(typeof finishTypes)[Name]> };

/** Stores the sums of some rows of a chunk, `columns` from column `begin` on, as results: activation(sum + beta C + bias). */
export function finishRows(
  f: FunctionBuilder,
  module: ModuleBuilder,
  rows: number,
  target: Elements,
  { c, n, beta, bias, biasStep, activation }: FinishLocals,
  { results, begin, columns }: Readonly<Record<"results" | "begin" | "columns", Local<"i32">>>,
): void {
  const plain = elementsOf(f, "f32");
  const output = f.let(i32.add(c, i32.shl(begin, target.shift)));
  const rowStep = f.let(i32.shl(n, target.shift));
  f.if(f32.ne(beta, 0), () => {
    const betas = f.let(f32x4.splat(beta));
    const before = f.let(output);
    for (let row = 0; row < rows; row++) {
      const own = { at: f.let(i32.add(results, row * resultRowBytes)), elements: plain };
      mapVectors(f, {
        count: columns,
        inputs: [own, { at: f.let(before), elements: target }],
        output: own,
        compute: (sum, old) => f32x4.add(sum!, f32x4.mul(betas, old!)),
        unroll: 1,
      });
      f.add(before, rowStep);
    }
  });
  f.if(hasEpilogue({ bias, biasStep, activation }), () => {
    const ownBias = f.let(bias);
    f.if(bias, () => f.add(ownBias, i32.mul(begin, biasStep)));
    f.call(epilogueFunction(module), results, resultRowBytes, rows, columns, ownBias, biasStep, activation);
  });
  for (let row = 0; row < rows; row++) {
    mapVectors(f, {
      count: columns,
      inputs: [{ at: f.let(i32.add(results, row * resultRowBytes)), elements: plain }],
      output: { at: f.let(output), elements: target },
      compute: (values) => values!,
      unroll: 1,
    });
    f.add(output, rowStep);
  }
}
