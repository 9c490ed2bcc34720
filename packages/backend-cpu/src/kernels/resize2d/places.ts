import {
  type Arg,
  type FunctionBuilder,
  f32,
  f32x4,
  f64,
  f64x2,
  i32,
  i32x4,
  type Local,
  type Value,
  v128,
} from "../../wasm/index.js";
import type { AxisLocals } from "../images/index.js";

/** A place between two elements: (1 - weight) of `lower`, and weight of `upper`, which is the same if weight is 0. */
export interface PlaceLocals {
  readonly lower: Local<"i32">;
  readonly upper: Local<"i32">;
  readonly weight: Local<"f32">;
}

/**
 * Returns a function that sets the place of a row or column of the output. The quotient is exact, though it is a product: with
 * 1/2 added, the numerator is 1 / (2 divisor) away from the next whole number, and below 2^31, and so the rounding of f64 does
 * not lead there.
 */
export function placesAlong(
  f: FunctionBuilder,
  { size, factor, shift, divisor }: AxisLocals,
): { readonly place: PlaceLocals; readonly set: (number: Arg<"i32">) => void } {
  const reciprocal = f.let(f64.div(f64.const(1), f64.convertI32S(divisor)));
  const unit = f.let(f32.div(f32.const(1), f32.convertI32S(divisor)));
  const last = f.let(i32.mul(i32.sub(size, 1), divisor));
  const place = { lower: f.local("i32"), upper: f.local("i32"), weight: f.local("f32") };
  const numerator = f.local("i32");
  return {
    place,
    set(number) {
      f.set(numerator, i32.add(i32.mul(number, factor), shift));
      f.set(numerator, i32.minS(numerator, last));
      f.set(numerator, i32.maxS(numerator, 0));
      const middle = f64.add(f64.convertI32S(numerator), f64.const(0.5));
      const quotient = i32x4.truncSatF64x2SZero(f64x2.splat(f64.mul(middle, reciprocal)));
      f.set(place.lower, i32x4.extractLane(0, quotient));
      const rest = f.let(i32.sub(numerator, i32.mul(place.lower, divisor)));
      f.set(place.weight, f32.mul(f32.convertI32S(rest), unit));
      f.set(place.upper, i32.add(place.lower, i32.ne(rest, 0)));
    },
  };
}

/** Whether there are twice as many places as elements, from 1/4 before the first one on: all pairs of places have the same weights. */
export function isDoubledAlong({ factor, shift, divisor }: Omit<AxisLocals, "size">): Value<"i32"> {
  return i32.and(i32.eq(i32.shl(factor, 1), divisor), i32.eq(i32.shl(shift, 2), i32.sub(0, divisor)));
}

/** Factors of a blend, for all lanes or for each. */
export interface BlendLocals {
  readonly lower: Local<"v128">;
  readonly upper: Local<"v128">;
  /** All ones where the upper one counts. */
  readonly counts: Local<"v128">;
}

export function blendLocals(f: FunctionBuilder): BlendLocals {
  return { lower: f.local("v128"), upper: f.local("v128"), counts: f.local("v128") };
}

export function setBlend(f: FunctionBuilder, blend: BlendLocals, weights: Value<"v128">): void {
  f.set(blend.upper, weights);
  f.set(blend.lower, f32x4.sub(f32x4.const(1), blend.upper));
  f.set(blend.counts, f32x4.ne(blend.upper, f32x4.const(0)));
}

/** Of an infinite number whose factor is 0, nothing is added. */
export function blended(
  { lower, upper, counts }: BlendLocals,
  a: Value<"v128">,
  b: Value<"v128">,
): Value<"v128"> {
  return f32x4.add(f32x4.mul(a, lower), v128.and(f32x4.mul(b, upper), counts));
}

/** Emits the factors of two vectors, and returns a function that blends them. */
export function blending(f: FunctionBuilder, weight: Local<"f32">) {
  const upper = f.let(f32x4.splat(weight));
  const lower = f.let(f32x4.sub(f32x4.const(1), upper));
  return (a: Value<"v128">, b: Value<"v128">): Value<"v128"> => f.multiplyAdd(b, upper, f32x4.mul(a, lower));
}
