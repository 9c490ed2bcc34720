import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  kind: {
    role: "kind",
    kinds: {
      relu: "max(x, 0)",
      sigmoid: "1 / (1 + e^-x)",
      tanh: "tanh(x)",
      exp: "e^x",
      expm1: "e^x - 1",
      log: "ln(x), x > 0",
      sqrt: "sqrt(x)",
      rsqrt: "1 / sqrt(x)",
      reciprocal: "1 / x",
      abs: "|x|",
      neg: "-x",
      sin: "sin(x)",
      cos: "cos(x)",
      floor: "the largest whole number up to x",
      ceil: "the smallest whole number from x on",
      round: "the nearest whole number, ties to even",
      sign: "-1, 0 or 1",
      erf: "erf(x)",
      gelu: "x / 2 (1 + erf(x / sqrt(2)))",
      geluTanh: "x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))",
      silu: "x sigmoid(x)",
      softplus: "ln(1 + e^x)",
    },
  },
  /** Elements. */
  n: { role: "extent" },
  input: { role: "reads", shape: "n" },
  /** May be exactly `input`. */
  output: { role: "writes", shape: "n" },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/** output[i] = kind(input[i]) for i in 0..n-1. */
export interface UnaryArguments extends ArgumentsOf<typeof table> {}

export type UnaryKind = UnaryArguments["kind"];

/** n is at least 1. The regions are disjoint or the same. */
export interface UnaryProblem<Memory> {
  readonly dtype: FloatType;
  readonly kind: UnaryKind;
  readonly n: number;
  readonly input: Region<Memory>;
  readonly output: Region<Memory>;
}

export const unary: Operation<UnaryArguments, UnaryProblem<unknown>> = defineOperation({
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
    const output = read.region(binder, "output", args.output, n, dtype);
    read.disjointOrSame({ argument: "output", region: output }, { argument: "input", region: input });
    return n === 0 ? undefined : { dtype, kind, n, input, output };
  },

  flops: (problem) => problem.n,
});

export const unaryKinds: readonly UnaryKind[] = Object.keys(table.kind.kinds) as UnaryKind[];
