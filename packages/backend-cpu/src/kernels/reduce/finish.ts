import type { ReducedType, ReduceKind } from "@backplane/core";
import { type FunctionBuilder, f64x2, i32, i32x4, type Local, type Value } from "../../wasm/index.js";
import type { Elements } from "../elements/index.js";
import { accumulationIn } from "./accumulate.js";

type Vector = Value<"v128">;

/** Turns folded values, two vectors of `toWide`, into results. */
type Finish = (low: Vector, high: Vector) => Vector;

export function finisher(
  f: FunctionBuilder,
  kind: ReduceKind,
  dtype: ReducedType,
  divisor: Local<"i32">,
): Finish {
  const { toLanes } = accumulationIn(f, kind, dtype);
  if (kind !== "mean") return toLanes;
  const count = f.let(f64x2.convertLowI32x4U(i32x4.splat(divisor)));
  return (low, high) => toLanes(f64x2.div(low, count), f64x2.div(high, count));
}

export function storeVector(
  f: FunctionBuilder,
  elements: Elements,
  to: Local<"i32">,
  values: Vector,
  remaining: Value<"i32">,
): void {
  const results = f.let(values);
  f.if(
    i32.geS(remaining, 4),
    () => elements.store(to, results),
    () => elements.storeFirst(to, results, remaining),
  );
}

/** Stores the first `remaining` of four lanes of 64 bits. */
export function storeDoubles(
  f: FunctionBuilder,
  to: Local<"i32">,
  [low, high]: readonly [Vector, Vector],
  remaining: Value<"i32">,
): void {
  const halves = [f.let(low), f.let(high)];
  for (let lane = 0; lane < 4; lane++)
    f.if(i32.gtS(remaining, lane), () => f.storeLane(64, lane & 1, to, halves[lane >> 1]!, 8 * lane));
}
