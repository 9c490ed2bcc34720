import { wgsl } from "../../program/index.js";

/** The parameters of both axes; `unit` is 1 / divisor, and `last` is the extent of the input less 1. */
export const axisParameters = {
  factor_y: "i32",
  shift_y: "i32",
  divisor_y: "i32",
  last_y: "i32",
  unit_y: "f32",
  factor_x: "i32",
  shift_x: "i32",
  divisor_x: "i32",
  last_x: "i32",
  unit_x: "f32",
} as const;

/** Quotients below this are found by a product in f32, which is off by 1 at most. */
export const PRODUCT_QUOTIENTS: number = 2 ** 21;

/**
 * `divided` is exact. Integer divisions take several times as long as products, so these are used where they are near enough to
 * be corrected.
 */
export function dividedFunction(byProduct: boolean): string {
  return wgsl`
/// A quotient rounded down, and what is left.
fn divided(n: i32, divisor: i32, unit: f32) -> vec2<i32> {
${
  byProduct
    ? wgsl`
  var quotient = i32(floor(f32(n) * unit));
  var rest = n - quotient * divisor;
  if (rest < 0) { quotient -= 1; rest += divisor; }
  if (rest >= divisor) { quotient += 1; rest -= divisor; }
  return vec2<i32>(quotient, rest);`
    : wgsl`
  // Numbers below zero are above -divisor.
  let below = select(0, 1, n < 0);
  let m = n + below * divisor;
  let quotient = m / divisor;
  return vec2<i32>(quotient - below, m - quotient * divisor);`
}
}
`;
}

/** Places between two elements: (1 - weight) of `lower`, and weight of the next one. See `dividedFunction`. */
export function placeFunctions(byProduct: boolean): string {
  return wgsl`
struct Place { lower: i32, weight: f32 }

${dividedFunction(byProduct)}

/// Within the image.
fn place_of(quotient: vec2<i32>, unit: f32, last: i32) -> Place {
  let inside = (quotient.x >= 0) & (quotient.x < last);
  return Place(clamp(quotient.x, 0, last), select(0.0, f32(quotient.y) * unit, inside));
}

fn row_of(y: i32) -> Place {
  let n = y * parameters.factor_y + parameters.shift_y;
  return place_of(divided(n, parameters.divisor_y, parameters.unit_y), parameters.unit_y, parameters.last_y);
}

fn quotient_of(x: i32) -> vec2<i32> {
  return divided(x * parameters.factor_x + parameters.shift_x, parameters.divisor_x, parameters.unit_x);
}

fn column_of(x: i32) -> Place {
  return place_of(quotient_of(x), parameters.unit_x, parameters.last_x);
}
`;
}

/** (1 - weight) a + weight b; b has no effect if weight is 0, whatever it is. */
export function blendFunction(value: "f32" | "vec4f"): string {
  return wgsl`
fn blend(a: ${value}, b: ${value}, weight: f32) -> ${value} {
  return select(a * (1.0 - weight) + b * weight, a, weight == 0.0);
}
`;
}
