import type { ArgumentsOf } from "./table.js";

/** The epilogue arguments of gemm, batchedGemm and conv2d. `UnaryKind` has the formulas. */
export const epilogueTable = {
  /** Applied to each finished sum in f32, before it is rounded to the element type. */
  activation: {
    role: "choice",
    values: ["relu", "gelu", "geluTanh", "silu", "relu6"],
    otherwise: "none",
    option: true,
  },
} as const;

/** A call with `activation`, or gemm with `bias`, throws `UNSUPPORTED` unless the backend supports it. */
export interface EpilogueArguments extends ArgumentsOf<typeof epilogueTable> {}

export type Activation = NonNullable<EpilogueArguments["activation"]>;

export const activations: readonly Activation[] = epilogueTable.activation.values;
