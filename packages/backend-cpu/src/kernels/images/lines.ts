import type { FloatType } from "@backplane/core";
import type { FunctionReference, ModuleBuilder } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { mapVectors } from "../vector/index.js";

/** Vectors per round of loops over lines. */
export const lineUnroll: Readonly<Record<FloatType, number>> = { f32: 4, f16: 1 };

/** to[i] = from[i], f32 as elements. */
export function storeLineFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`images_store_line_${dtype}`, (name) =>
    module.function(name, { to: "i32", from: "i32", count: "i32" }, (f, { to, from, count }) => {
      mapVectors(f, {
        ...{ count, output: { at: to, elements: elementsOf(f, dtype) }, unroll: lineUnroll[dtype] },
        inputs: [{ at: from, elements: elementsOf(f, "f32") }],
        compute: (x) => x!,
      });
    }),
  );
}
