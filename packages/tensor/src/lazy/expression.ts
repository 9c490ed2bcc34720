import type { BinaryKind, DType, MapType, UnaryKind } from "@backplane/core";
import type { Value } from "../value.js";

/** What an elementwise value is computed from. A number stands for itself, repeated. */
export type Operand = Value | number;

/** The function of one element. */
export type Elementwise =
  | { readonly form: "unary"; readonly kind: UnaryKind }
  | { readonly form: "binary"; readonly kind: BinaryKind }
  /** operands: condition, a, b */
  | { readonly form: "select" }
  | { readonly form: "convert"; readonly to: MapType }
  /** The place along an axis, i32; no operands. */
  | { readonly form: "index"; readonly axis: number };

/** A value that is not computed yet. It holds a reference to each operand. */
export interface Expression {
  readonly function: Elementwise;
  readonly operands: readonly Operand[];
  /** At most as many of each as the whole expression has: what is used twice may count twice. */
  readonly nodes: number;
  readonly inputs: number;
  readonly parameters: number;
}

/** The type in which an expression computes elements of a type. bf16 has no arithmetic. */
export const computedTypes: Readonly<Record<DType, MapType | undefined>> = {
  f32: "f32",
  f16: "f32",
  i32: "i32",
  u32: "u32",
  u8: "u8",
  bf16: undefined,
};
