import type { FloatType, UnaryKind } from "@backplane/core";
import { i32 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors } from "../vector/index.js";
import { unaryFunctions } from "./functions.js";

const parameterTypes = {
  input: "i32",
  output: "i32",
  count: "i32",
  /** Elements that one chunk computes. */
  chunkElements: "i32",
} as const;

export type UnaryTypes = typeof parameterTypes;

/** output[i] = kind(input[i]) for `count` contiguous elements. */
export function unaryKernel(kind: UnaryKind, dtype: FloatType): Kernel<UnaryTypes> {
  const { emit, unroll, scratchBytes } = unaryFunctions[kind];
  return defineKernel({
    name: `unary_${kind}_${dtype}`,
    parameters: parameterTypes,
    scratchBytes,
    emit(f, { parameters: { input, output, count, chunkElements }, chunk, scratch }) {
      const elements = elementsOf(f, dtype);
      const compute = emit(f, scratch);
      const begin = f.let(i32.mul(chunk, chunkElements));
      const bytes = f.let(i32.shl(begin, elements.shift));
      mapVectors(f, {
        count: i32.minU(i32.sub(count, begin), chunkElements),
        inputs: [{ at: f.let(i32.add(input, bytes)), elements }],
        output: { at: f.let(i32.add(output, bytes)), elements },
        compute: (x) => compute(x!),
        unroll: elements.converted ? 1 : unroll,
        parts: 2,
      });
    },
  });
}
