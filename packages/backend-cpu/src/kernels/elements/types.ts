import { dtypeBytes, type FloatType, type IntegerType } from "@backplane/core";

/** Makes something for each type of float arithmetic. */
export function byFloatType<Made>(make: (dtype: FloatType) => Made): Readonly<Record<FloatType, Made>> {
  return { f32: make("f32"), f16: make("f16") };
}

/** Element types with which kernels compute. */
export type ComputedType = FloatType | IntegerType;

/** Makes something for each type with which kernels compute. */
export function byComputedType<Made>(
  make: (dtype: ComputedType) => Made,
): Readonly<Record<ComputedType, Made>> {
  return { ...byFloatType(make), i32: make("i32"), u32: make("u32") };
}

/** What the four lanes of a vector hold. */
export type LaneType = "f32" | IntegerType;

/** What a kernel computes with: lanes of a type, or truth values, which are bytes in lanes of u32. */
export type FormType = LaneType | "u8";

/** The form of an element type. */
export function formOf(dtype: ComputedType | "u8"): FormType {
  return dtype === "u8" ? "u8" : elementFormats[dtype].lanes;
}

/** How elements of a type lie in memory, and how kernels see them. */
export interface ElementFormat {
  /** Bytes of one element. */
  readonly bytes: number;
  /** log2 of `bytes`. */
  readonly shift: number;
  /**
   * Whether lanes are converted to elements, and elements to lanes. If not, elements can be used where they lie,
   * and their places can hold sums.
   */
  readonly converted: boolean;
  readonly lanes: LaneType;
}

export const elementFormats: Readonly<Record<ComputedType | "u8", ElementFormat>> = {
  f32: { bytes: dtypeBytes.f32, shift: 2, converted: false, lanes: "f32" },
  f16: { bytes: dtypeBytes.f16, shift: 1, converted: true, lanes: "f32" },
  i32: { bytes: dtypeBytes.i32, shift: 2, converted: false, lanes: "i32" },
  u32: { bytes: dtypeBytes.u32, shift: 2, converted: false, lanes: "u32" },
  u8: { bytes: dtypeBytes.u8, shift: 0, converted: true, lanes: "u32" },
};
