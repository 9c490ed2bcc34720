import type { DType, FloatType, IntegerType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  kind: {
    role: "kind",
    kinds: {
      relu: "max(x, 0)",
      relu6: "min(max(x, 0), 6)",
      sigmoid: "1 / (1 + e^-x)",
      tanh: "tanh(x)",
      exp: "e^x",
      expm1: "e^x - 1",
      exp2: "2^x",
      log: "ln(x), x > 0",
      log1p: "ln(1 + x), x > -1",
      log2: "log2(x), x > 0",
      sqrt: "sqrt(x)",
      rsqrt: "1 / sqrt(x)",
      reciprocal: "1 / x",
      abs: "|x|",
      neg: "-x",
      square: "x^2",
      sin: "sin(x)",
      cos: "cos(x)",
      tan: "tan(x)",
      asin: "arcsin(x), |x| <= 1",
      acos: "arccos(x), |x| <= 1",
      atan: "arctan(x)",
      sinh: "sinh(x)",
      cosh: "cosh(x)",
      asinh: "arsinh(x)",
      acosh: "arcosh(x), x >= 1",
      atanh: "artanh(x), |x| < 1",
      floor: "the largest whole number up to x",
      ceil: "the smallest whole number from x on",
      round: "the nearest whole number, ties to even",
      trunc: "x without its fraction",
      sign: "-1, 0 or 1",
      erf: "erf(x)",
      gelu: "x / 2 (1 + erf(x / sqrt(2))); -0 for -Infinity",
      geluTanh: "x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); -0 for -Infinity",
      silu: "x sigmoid(x); -0 for -Infinity",
      softplus: "ln(1 + e^x)",
      isNaN: "1 if x is NaN, else 0",
      isInfinite: "1 if x is Infinity or -Infinity, else 0",
      isFinite: "1 if x is a number that is not infinite, else 0",
      logicalNot: "1 if x is 0, else 0",
      not: "every bit of x turned",
    },
  },
  /** Elements. */
  n: { role: "extent" },
  input: { role: "reads", shape: "n" },
  /** May be exactly `input`. */
  output: {
    role: "writes",
    shape: "n; u8 for isNaN, isInfinite and isFinite, which do not write over their input",
  },
  /** Of the input, and of the output unless that is u8. */
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32", "u8"], default: "f32" },
} as const;

/**
 * output[i] = kind(input[i]) for i in 0..n-1.
 *
 * Most kinds are of f32 and f16. Integers (i32, u32) have abs, neg, square and sign, which wrap around, and not, which
 * only they have. logicalNot is of u8, in which 0 is false and all else true.
 */
export interface UnaryArguments extends ArgumentsOf<typeof table> {}

export type UnaryKind = UnaryArguments["kind"];

/** The kinds of floats whose output is u8. */
export type TestKind = (typeof testKinds)[number];

const testKinds = ["isNaN", "isInfinite", "isFinite"] as const;

export function isTest(kind: UnaryKind): kind is TestKind {
  return testKinds.includes(kind as TestKind);
}

/** The kinds of floats whose output has the type of the input. */
export type FloatUnaryKind = Exclude<UnaryKind, TestKind | "logicalNot" | "not">;

/** n is at least 1. The regions are disjoint or the same. Kinds of other types than `dtype` do not reach kernels. */
export interface UnaryProblem<
  Memory,
  Type extends DType = FloatType | IntegerType | "u8",
  Kind extends UnaryKind = UnaryKind,
> {
  readonly dtype: Type;
  readonly kind: Kind;
  readonly n: number;
  readonly input: Region<Memory>;
  /** u8 if `isTest(kind)`; then disjoint from the input. */
  readonly output: Region<Memory>;
}

export const unary: Operation<UnaryArguments, UnaryProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "unary",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, unaryKinds);
    const n = read.extent("n", args.n);
    const input = read.region(binder, "input", args.input, n, dtype);
    const tests = isTest(kind);
    const output = read.region(binder, "output", args.output, n, tests ? "u8" : dtype);
    const [written, given] = [
      { argument: "output", region: output },
      { argument: "input", region: input },
    ] as const;
    if (tests) read.disjoint(written, given);
    else read.disjointOrSame(written, given);
    return n === 0 ? undefined : { dtype, kind, n, input, output };
  },

  flops: (problem) => problem.n,
});

export const unaryKinds: readonly UnaryKind[] = Object.keys(table.kind.kinds) as UnaryKind[];

export const floatUnaryKinds: readonly FloatUnaryKind[] = unaryKinds.filter(
  (kind): kind is FloatUnaryKind => !isTest(kind) && kind !== "logicalNot" && kind !== "not",
);

const integerKinds: readonly UnaryKind[] = ["abs", "neg", "square", "sign", "not"];

/** The type of the results of a kind on elements of a type; undefined if the type does not have the kind. */
export function unaryResultType<Type extends UnaryProblem<unknown>["dtype"]>(
  kind: UnaryKind,
  dtype: Type,
): Type | "u8" | undefined {
  if (dtype === "u8") return kind === "logicalNot" ? "u8" : undefined;
  if (dtype === "i32" || dtype === "u32") return integerKinds.includes(kind) ? dtype : undefined;
  if (isTest(kind)) return "u8";
  return floatUnaryKinds.includes(kind as FloatUnaryKind) ? dtype : undefined;
}
