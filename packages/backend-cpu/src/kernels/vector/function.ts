import type { Value } from "../../wasm/index.js";

/**
 * A function of vectors, ready for use inside a loop. The factories that return one emit what does
 * not change (constants) where they are called: before the loop, because V8 builds a `v128.const`
 * anew each time it is met.
 */
export type VectorFunction = (x: Value<"v128">) => Value<"v128">;
