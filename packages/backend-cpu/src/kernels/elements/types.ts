import { dtypeBytes, type FloatType } from "@backplane/core";

/** Makes something for each type of float arithmetic. */
export function byFloatType<Made>(make: (dtype: FloatType) => Made): Readonly<Record<FloatType, Made>> {
  return { f32: make("f32"), f16: make("f16") };
}

/** How elements of a type lie in memory. */
export interface ElementFormat {
  /** Bytes of one element. */
  readonly bytes: number;
  /** log2 of `bytes`. */
  readonly shift: number;
  /**
   * Whether elements become f32 when they are loaded, and are rounded when they are stored. If not, they can be
   * used where they lie, and their places can hold sums.
   */
  readonly converted: boolean;
}

export const elementFormats: Readonly<Record<FloatType, ElementFormat>> = {
  f32: { bytes: dtypeBytes.f32, shift: 2, converted: false },
  f16: { bytes: dtypeBytes.f16, shift: 1, converted: true },
};
