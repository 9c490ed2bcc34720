import { type FunctionBuilder, f32x4, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import { polynomial, sharedConstants, type Vector, type VectorLocal } from "./emit.js";

/** (arctan(t) / t - 1) / t^2 in powers of t^2, minimax for |t| <= tan(pi / 8) (2^-30.4), fitted as those of the logarithm. */
const coefficients = [
  -0.33333316445350647, 0.19998528063297272, -0.14244377613067627, 0.10598943382501602, -0.060891516506671906,
];

/** pi / 4, pi / 2, 3 pi / 4 and pi as the nearest f32 and the rest. */
const multiples = [1, 2, 3, 4].map((quarters) => {
  const high = Math.fround((quarters * Math.PI) / 4);
  // The rest of pi beyond its double does not show in f32.
  return { high, low: (quarters * Math.PI) / 4 - high };
});

interface Parts {
  /** a < b tan(pi / 8), in which case the offset is 0. */
  readonly near: VectorLocal;
  /** a > b tan(3 pi / 8), where it is pi / 2; otherwise it is pi / 4. */
  readonly far: VectorLocal;
  /** The tangent of the angle less its offset. */
  readonly tangent: Vector;
}

/** The angle of the point (b, a) for a, b >= 0, after one division. */
function reduction(f: FunctionBuilder): (a: VectorLocal, b: VectorLocal) => Parts {
  const { zero, sign } = sharedConstants(f);
  const lower = f.let(f32x4.const(Math.tan(Math.PI / 8)));
  const upper = f.let(f32x4.const(Math.tan((3 * Math.PI) / 8)));
  return (a, b) => {
    const near = f.let(v128.or(f32x4.lt(a, f32x4.mul(b, lower)), f32x4.eq(a, zero)));
    const far = f.let(f32x4.gt(a, f32x4.mul(b, upper)));
    const numerator = f.choose(a, f.choose(v128.xor(b, sign), f32x4.sub(a, b), far), near);
    const denominator = f.choose(b, f.choose(a, f32x4.add(a, b), far), near);
    return { near, far, tangent: f32x4.div(numerator, denominator) };
  };
}

/** arctan(x), within 1.5 ULP. */
export function arctangent(f: FunctionBuilder): VectorFunction {
  const { one, zero, sign } = sharedConstants(f);
  const reduce = reduction(f);
  const p = polynomial(f, coefficients);
  const [quarter, half] = multiples.map(({ high, low }) => ({
    high: f.let(f32x4.const(high)),
    low: f.let(f32x4.const(low)),
  })) as [{ high: VectorLocal; low: VectorLocal }, { high: VectorLocal; low: VectorLocal }];
  return (argument) => {
    const x = f.let(argument);
    const { near, far, tangent } = reduce(f.let(f32x4.abs(x)), one);
    const t = f.let(tangent);
    const z = f.let(f32x4.mul(t, t));
    const high = f.choose(zero, f.choose(half.high, quarter.high, far), near);
    const low = f.choose(zero, f.choose(half.low, quarter.low, far), near);
    const tail = f.multiplyAdd(f32x4.mul(t, z), p(z), low);
    return f.let(v128.xor(f32x4.add(high, f32x4.add(t, tail)), v128.and(x, sign)));
  };
}

/** The angle of the point (x, y), within 1.5 ULP; of zeros and infinities as `Math.atan2` has it. */
export function arctangentOf(f: FunctionBuilder): (y: Vector, x: Vector) => Vector {
  const { one, zero, sign } = sharedConstants(f);
  const reduce = reduction(f);
  const p = polynomial(f, coefficients);
  const large = f.let(f32x4.const(2 ** 100));
  const small = f.let(f32x4.const(2 ** -100));
  const down = f.let(f32x4.const(2 ** -30));
  const up = f.let(f32x4.const(2 ** 30));
  const offsets = multiples.map(({ high, low }) => ({
    high: f.let(f32x4.const(high)),
    low: f.let(f32x4.const(low)),
  }));
  return (first, second) => {
    const y = f.let(first);
    const x = f.let(second);
    const [sizeY, sizeX] = [f.let(f32x4.abs(y)), f.let(f32x4.abs(x))];
    // So that neither a sum overflows nor a difference loses bits; what underflows does not show.
    const larger = f.let(f32x4.pmax(sizeY, sizeX));
    const scale = f.let(f.choose(down, f.choose(up, one, f32x4.lt(larger, small)), f32x4.gt(larger, large)));
    const a = f.let(f32x4.mul(sizeY, scale));
    const b = f.let(f32x4.mul(sizeX, scale));
    const { near, far, tangent } = reduce(a, b);
    // Of two zeros, or two infinities, the quotient is NaN.
    const size = f.let(f.choose(zero, tangent, f32x4.eq(a, b)));
    // On the left side the angle is pi less the one on the right.
    const left = f.let(i32x4.shrS(x, 31));
    const t = f.let(v128.xor(size, v128.and(left, sign)));
    const z = f.let(f32x4.mul(t, t));
    const chosen = (part: "high" | "low"): Vector => {
      const [quarter, half, most, all] = offsets.map((offset) => offset[part]) as [
        VectorLocal,
        VectorLocal,
        VectorLocal,
        VectorLocal,
      ];
      const between = f.choose(half, f.choose(most, quarter, left), far);
      return f.choose(v128.and(all, left), between, near);
    };
    const tail = f.multiplyAdd(f32x4.mul(t, z), p(z), chosen("low"));
    return f.let(v128.xor(f32x4.add(chosen("high"), f32x4.add(t, tail)), v128.and(y, sign)));
  };
}
