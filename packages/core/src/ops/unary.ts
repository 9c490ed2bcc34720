import type { DType } from "../dtype.js";
import type { Operand } from "../handles.js";
import { checkNames } from "../names.js";
import type { Region } from "../region.js";
import { Checks, type Operation } from "./operation.js";

export type UnaryKind =
  /** max(x, 0) */
  | "relu"
  /** 1 / (1 + e^-x) */
  | "sigmoid"
  | "tanh"
  | "exp"
  /** Natural logarithm; x > 0. */
  | "log"
  | "sqrt"
  /** 1 / sqrt(x) */
  | "rsqrt"
  /** 1 / x */
  | "reciprocal"
  | "abs"
  | "neg"
  | "sin"
  | "cos"
  | "floor"
  | "ceil"
  /** To the nearest whole number, ties to even. */
  | "round"
  /** -1, 0 or 1 */
  | "sign"
  | "erf"
  /** x / 2 * (1 + erf(x / sqrt(2))) */
  | "gelu"
  /** x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */
  | "geluTanh"
  /** x * sigmoid(x) */
  | "silu"
  /** log(1 + e^x) */
  | "softplus";

export const unaryKinds: readonly UnaryKind[] = [
  ...(["relu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "reciprocal", "abs", "neg", "sin"] as const),
  ...(["cos", "floor", "ceil", "round", "sign", "erf", "gelu", "geluTanh", "silu", "softplus"] as const),
];

/** output[i] = kind(input[i]) for i in 0..n-1. `output` may be exactly `input`. */
export interface UnaryArguments {
  readonly kind: UnaryKind;
  /** Elements. */
  readonly n: number;
  readonly input: Operand;
  readonly output: Operand;
  readonly dtype?: DType;
}

/** n is at least 1. The regions are disjoint or the same. */
export interface UnaryProblem<Memory> {
  readonly dtype: DType;
  readonly kind: UnaryKind;
  readonly n: number;
  readonly input: Region<Memory>;
  readonly output: Region<Memory>;
}

const unaryNames: readonly (keyof UnaryArguments)[] = ["kind", "n", "input", "output", "dtype"];

export const unary: Operation<"unary"> = {
  name: "unary",
  names: unaryNames,
  operands: ["input", "output"],
  kinds: unaryKinds,

  resolve(args, binder) {
    // Counted first, which costs next to nothing: see checkNames.
    let names = 0;
    if (args.kind !== undefined) names++;
    if (args.n !== undefined) names++;
    if (args.input !== undefined) names++;
    if (args.output !== undefined) names++;
    if (args.dtype !== undefined) names++;
    for (const _ in args) names--;
    if (names !== 0) checkNames("unary", args, unaryNames);
    const checks = new Checks("unary");
    const dtype = checks.dtype(args.dtype);
    const kind = checks.oneOf("kind", args.kind, unaryKinds);
    const n = checks.count("n", args.n);
    const input = binder.region("input", args.input, n, dtype);
    const output = binder.region("output", args.output, n, dtype);
    checks.disjointOrSame({ argument: "output", region: output }, { argument: "input", region: input });
    return n === 0 ? undefined : { dtype, kind, n, input, output };
  },

  flops: (problem) => problem.n,
  bytes: (problem) => problem.input.byteLength + problem.output.byteLength,
};
