import type { Value } from "./expressions.js";

/**
 * A function of vectors, for use inside a loop. The factories that return one emit constants at the place of
 * their call: before the loop, because V8 builds a `v128.const` anew each time it is executed.
 */
export type VectorFunction = (x: Value<"v128">) => Value<"v128">;
