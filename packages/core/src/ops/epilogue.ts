/**
 * What gemm, batchedGemm and conv2d may apply to each finished sum, in f32 and before it is rounded to
 * the element type; the formulas are those of `UnaryKind`.
 */
export type Activation = "relu" | "gelu" | "geluTanh" | "silu";

export const activations: readonly Activation[] = ["relu", "gelu", "geluTanh", "silu"];

/** Whether an argument names an activation that there is; others are left to the argument checks. */
export function isActivation(value: unknown): value is Activation {
  return value !== undefined && (activations as readonly unknown[]).includes(value);
}
