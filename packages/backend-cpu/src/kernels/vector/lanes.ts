import { type FunctionBuilder, f32x4, type Local, shuffle32, type Value } from "../../wasm/index.js";

/** Lane i of the result is the sum of the lanes of vector i, by default of f32. */
export function sumOfLanes(
  f: FunctionBuilder,
  vectors: readonly Local<"v128">[],
  add: (a: Value<"v128">, b: Value<"v128">) => Value<"v128"> = f32x4.add,
): Value<"v128"> {
  const [v0, v1, v2, v3] = vectors as readonly [Local<"v128">, Local<"v128">, Local<"v128">, Local<"v128">];
  const halves = (x: Local<"v128">, y: Local<"v128">): Local<"v128"> =>
    f.let(add(shuffle32([0, 4, 1, 5], x, y), shuffle32([2, 6, 3, 7], x, y)));
  const low = halves(v0, v1);
  const high = halves(v2, v3);
  return add(shuffle32([0, 1, 4, 5], low, high), shuffle32([2, 3, 6, 7], low, high));
}
