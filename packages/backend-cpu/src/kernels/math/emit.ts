import {
  type FunctionBuilder,
  f32x4,
  f64x2,
  i32x4,
  type Local,
  shuffle32,
  type Value,
} from "../../wasm/index.js";

export type Vector = Value<"v128">;
export type VectorLocal = Local<"v128">;

/**
 * c[0] + c[1] x + c[2] x^2 + ... Returns a function for use inside a loop; the coefficients become locals
 * here, before it. The high powers are summed as pairs c[i] + c[i + 1] x, by Horner's rule in x^2, or from eight
 * coefficients on as pairs of pairs in x^4 (Estrin's scheme): half or a third as many steps depend on one another as
 * with the rule in x, and that limits the speed of these functions. The up to three lowest coefficients, whose rounding
 * errors show, follow the rule in x.
 */
export function polynomial(f: FunctionBuilder, coefficients: readonly number[]): (x: VectorLocal) => Vector {
  const locals = coefficients.map((coefficient) => f.let(f32x4.const(coefficient)));
  const firstPair = locals.length % 4;
  return (x) => {
    const square = f.let(f32x4.mul(x, x));
    let sums: Vector[] = [];
    for (let i = firstPair; i < locals.length; i += 2)
      sums.push(
        f.let(
          coefficients[i + 1] === 1 ? f32x4.add(x, locals[i]!) : f.multiplyAdd(locals[i + 1]!, x, locals[i]!),
        ),
      );
    let power = square;
    if (sums.length >= 4) {
      sums = Array.from({ length: sums.length / 2 }, (_, i) =>
        f.let(f.multiplyAdd(sums[2 * i + 1]!, square, sums[2 * i]!)),
      );
      power = f.let(f32x4.mul(square, square));
    }
    const terms: Vector[] = locals.slice(0, firstPair);
    if (sums.length > 0) terms.push(horner(sums, (sum, next) => f.multiplyAdd(sum, power, next)));
    return horner(terms, (sum, coefficient) => f.multiplyAdd(sum, x, coefficient));
  };
}

/**
 * The same as a tree of pairs, pairs of pairs and so on (Estrin's scheme): the fewest steps that depend on one another,
 * for polynomials whose rounding errors do not show in the result.
 */
export function tree(f: FunctionBuilder, coefficients: readonly number[]): (x: VectorLocal) => Vector {
  const locals = coefficients.map((coefficient) => f.let(f32x4.const(coefficient)));
  return (x) => {
    let sums: readonly VectorLocal[] = locals;
    let power = x;
    while (sums.length > 1) {
      const pairs: VectorLocal[] = [];
      for (let i = 0; i < sums.length; i += 2) {
        const [low, high] = [sums[i]!, sums[i + 1]];
        pairs.push(high === undefined ? low : f.let(f.multiplyAdd(high, power, low)));
      }
      sums = pairs;
      if (sums.length > 1) power = f.let(f32x4.mul(power, power));
    }
    return sums[0]!;
  };
}

/** The same in f64, by Horner's rule in x^2 on pairs. */
export function polynomial64(
  f: FunctionBuilder,
  coefficients: readonly number[],
): (x: VectorLocal) => Vector {
  const locals = coefficients.map((coefficient) => f.let(f64x2.const(coefficient)));
  return (x) => {
    const square = f.let(f64x2.mul(x, x));
    const pairs: Vector[] = [];
    for (let i = 0; i < locals.length; i += 2) {
      const [low, high] = [locals[i]!, locals[i + 1]];
      pairs.push(high === undefined ? low : f.let(f.multiplyAdd64(high, x, low)));
    }
    return horner(pairs, (sum, pair) => f.multiplyAdd64(sum, square, pair));
  };
}

function horner(coefficients: readonly Vector[], step: (sum: Vector, coefficient: Vector) => Vector): Vector {
  return coefficients.reduceRight(step);
}

/** Adding 1.5 * 2^52 rounds an f64 to a whole number, which is then in its low bits. */
export const roundingBias64 = 6755399441055744;

export interface SharedConstants {
  readonly zero: VectorLocal;
  readonly half: VectorLocal;
  readonly one: VectorLocal;
  /** The sign bit of each f32, which is -0. */
  readonly sign: VectorLocal;
}

export function sharedConstants(f: FunctionBuilder): SharedConstants {
  return {
    zero: f.let(f32x4.const(0)),
    half: f.let(f32x4.const(0.5)),
    one: f.let(f32x4.const(1)),
    sign: f.let(i32x4.const(0x80000000 | 0)),
  };
}

/**
 * Emits `usual`, and instead `rare` if the mask has some lane: rare arguments take steps that would cost all others a
 * good part of their time. Both must give the same for the other lanes. `rare` declares its constants itself: before
 * the loop they would take registers from the usual steps.
 */
export function unlessAny(
  f: FunctionBuilder,
  mask: Vector,
  usual: () => Vector,
  rare: () => Vector,
): VectorLocal {
  const result = f.let(usual());
  f.if(i32x4.bitmask(mask), () => f.set(result, rare()));
  return result;
}

/** A vector of f32 as two vectors of f64: lanes 0 and 1, lanes 2 and 3. */
export function promote(f: FunctionBuilder, x: VectorLocal): readonly [VectorLocal, VectorLocal] {
  return [f.let(f64x2.promoteLowF32x4(x)), f.let(f64x2.promoteLowF32x4(shuffle32([2, 3, 2, 3], x, x)))];
}

/** Two vectors of f64, rounded, as one of f32. */
export function demote(low: Vector, high: Vector): Vector {
  return shuffle32([0, 1, 4, 5], f32x4.demoteF64x2Zero(low), f32x4.demoteF64x2Zero(high));
}
