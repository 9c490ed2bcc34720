import { isTest, type UnaryKind } from "@backplane/core";
import { i32 } from "../../wasm/index.js";
import { type ComputedType, elementsOf, formOf } from "../elements/index.js";
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

/** output[i] = kind(input[i]) for `count` contiguous elements. Throws if the kind does not have the type. */
export function unaryKernel(kind: UnaryKind, dtype: ComputedType | "u8"): Kernel<UnaryTypes> {
  const { [formOf(dtype)]: form } = unaryFunctions[kind];
  if (form === undefined) throw new TypeError(`unary ${kind} does not have ${dtype}`);
  const { emit, unroll, scratchBytes } = form;
  return defineKernel({
    name: `unary_${kind}_${dtype}`,
    parameters: parameterTypes,
    scratchBytes,
    emit(f, { parameters: { input, output, count, chunkElements }, chunk, scratch }) {
      const elements = elementsOf(f, dtype);
      const results = isTest(kind) ? elementsOf(f, "u8") : elements;
      const compute = emit(f, scratch);
      const begin = f.let(i32.mul(chunk, chunkElements));
      const bytes = f.let(i32.shl(begin, elements.shift));
      const resultBytes = results === elements ? bytes : i32.shl(begin, results.shift);
      mapVectors(f, {
        count: i32.minU(i32.sub(count, begin), chunkElements),
        inputs: [{ at: f.let(i32.add(input, bytes)), elements }],
        output: { at: f.let(i32.add(output, resultBytes)), elements: results },
        compute: (x) => compute(x!),
        unroll: elements.converted ? 1 : unroll,
        parts: 2,
      });
    },
  });
}
