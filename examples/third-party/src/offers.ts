import {
  type Activation,
  activations,
  binaryKinds,
  type Capabilities,
  type DType,
  type FloatType,
  floatTypes,
  inexactBinaryKinds,
  inexactUnaryKinds,
  numberReduceKinds,
  type Operand,
  type OperationName,
  type Question,
  reduceKinds,
  unaryKinds,
} from "@backplane/core";
import type { Call } from "./checks.js";
import { argumentNames } from "./names.js";
import { binaryFunctions, unaryFunctions } from "./operations/elementwise.js";

/** Known without opening anything. */
export const capabilities: Capabilities = {
  device: { kind: "cpu", name: "JavaScript, on demand", software: false, details: {} },
  dtypes: floatTypes,
  limits: { maxAllocationBytes: 2 ** 30 },
  // Every result is computed in double precision and rounded once.
  numerics: {
    nan: "kept",
    infinity: "kept",
    subnormals: "kept",
    signedZero: "kept",
    rounding: "nearest-even",
    deterministic: true,
  },
  accuracy: {
    unary: Object.fromEntries(inexactUnaryKinds.map((kind) => [kind, [{ units: 0.5 }]])),
    binary: Object.fromEntries(inexactBinaryKinds.map((kind) => [kind, 0.5])),
  },
  synchronousReads: true,
};

/** What this backend offers, which need not have every operation: element types, and the kinds of operations that have kinds. */
const offers: Readonly<
  Partial<
    Record<OperationName, { readonly dtypes: readonly FloatType[]; readonly kinds?: readonly string[] }>
  >
> = {
  gemm: { dtypes: ["f32"] },
  batchedGemm: { dtypes: ["f32"] },
  conv2d: { dtypes: ["f32"] },
  attention: { dtypes: ["f32"] },
  reduce: { dtypes: ["f32"], kinds: numberReduceKinds },
  unary: { dtypes: floatTypes, kinds: Object.keys(unaryFunctions) },
  binary: { dtypes: floatTypes, kinds: Object.keys(binaryFunctions) },
};

/** Whether it has what a question asks for. */
export function isOffered(name: OperationName, { dtype = "f32", kind, ...others }: Question): boolean {
  const offer = Object.hasOwn(offers, name) ? offers[name] : undefined;
  if (!(offer?.dtypes as readonly DType[] | undefined)?.includes(dtype)) return false;
  const asked = Object.keys(others).filter((other) => others[other] !== undefined);
  // There is no epilogue here, because gelu is missing; the bias of conv2d is not part of it.
  const missing =
    name === "conv2d" ? ["activation"] : ["activation", "bias", "mask", "maskDtype", "window", "logSumExp"];
  if (asked.some((other) => missing.includes(other) || !argumentNames(name).includes(other))) return false;
  return kind === undefined || (offer?.kinds?.includes(kind) ?? false);
}

/** Arguments that some backends do not support in full. */
export interface Wishes {
  readonly dtype?: DType;
  readonly kind?: string;
  readonly activation?: Activation;
  readonly bias?: Operand;
  readonly mask?: Operand;
  readonly maskStrides?: readonly number[];
  readonly maskDtype?: DType;
  readonly window?: number;
  readonly logSumExp?: Operand;
}

/** All kinds that there are. */
const kinds: readonly string[] = [...reduceKinds, ...unaryKinds, ...binaryKinds];

/**
 * Returns what a call asks for beside its element type. A kind that no backend has is a mistake of the caller,
 * and is left to the operation's own checks.
 */
export function questionOf(call: Call, name: OperationName, wishes: Wishes): Question {
  if (name === "attention") return wishesOfAttention(call, wishes);
  const { kind, activation, bias } = wishes;
  const isProduct = name === "gemm" || name === "batchedGemm";
  if (activation !== undefined && (isProduct || name === "conv2d"))
    return { activation: call.choice("activation", activation, activations) };
  if (bias !== undefined && isProduct) return { bias: true };
  return kinds.includes(kind ?? "") ? { kind } : {};
}

/** Attention hides no keys here, but by `causal`, and has one output. */
function wishesOfAttention(call: Call, wishes: Wishes): Question {
  const { mask, maskStrides, maskDtype, window, logSumExp } = wishes;
  if (maskDtype !== undefined) call.choice("maskDtype", maskDtype, ["f32", "f16", "u8"]);
  if (window !== undefined && call.whole("window", window) === 0) call.refuse("window", window, "1 or more");
  if (mask === undefined && (maskStrides !== undefined || maskDtype !== undefined))
    call.refuse("mask", mask, "an operand where maskStrides or maskDtype is given");
  const asked = { mask, window, logSumExp };
  return Object.fromEntries(
    Object.entries(asked).flatMap(([name, value]) => (value === undefined ? [] : [[name, true]])),
  );
}
