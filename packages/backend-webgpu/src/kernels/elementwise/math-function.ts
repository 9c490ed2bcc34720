/** The functions of `math.wgsl.ts`. */
export type MathFunctionName =
  | "from_bits"
  | "power_of_two"
  | "is_nan"
  | "rank"
  | "ordinal"
  | "or_nan"
  | "settled"
  | "exponential_near_zero"
  | "nearest"
  | "less_logarithms"
  | "scaled_decay"
  | "exponential"
  | "decay"
  | "log_near_one"
  | "split_exponent"
  | "logarithm"
  | "log_of_one_plus"
  | "logistic"
  | "times_logistic"
  | "hyperbolic_tangent"
  | "quarter_turns"
  | "far_quarter_turns"
  | "sine_of_parts"
  | "error_near_zero"
  | "error_complement"
  | "power"
  | "upper_half"
  | "angle"
  | "arc_tail"
  | "exponential_less_one"
  | "half_exponential"
  | "shifted_logarithm"
  | "quotient"
  | "long_division"
  | "remainder"
  | "floored_remainder"
  | "floored_quotient";

/** A function of one or two numbers as WGSL text, and what it calls. */
export interface FunctionText {
  readonly uses: readonly MathFunctionName[];
  /** Functions that only functions of its kind call, or "". */
  readonly helpers: string;
  readonly source: string;
}

/** The text of one in WGSL, and the others that it calls. */
export interface MathFunction {
  readonly uses?: readonly MathFunctionName[];
  readonly source: string;
}

export type MathFunctions = { readonly [Name in MathFunctionName]?: MathFunction };
