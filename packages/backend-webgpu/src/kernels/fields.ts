import { floatTypes, integerTypes } from "@backplane/core";

/** The values that one field of a shape may have. */
export interface ShapeField {
  is(value: unknown): boolean;
  /** In words. */
  readonly allowed: string;
  /** Returns the text of a value in keys. Default: that of `String`. */
  text?(value: never): string;
}

/** Of each field of a shape. */
export type ShapeFields<Shape> = { readonly [Field in keyof Shape]-?: ShapeField };

export function oneOf(...values: readonly unknown[]): ShapeField {
  return { is: (value) => values.includes(value), allowed: values.join(", ") };
}

export function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export const count: ShapeField = { is: isCount, allowed: "a whole number from 0" };
export const flag: ShapeField = oneOf(true, false);
export const floatType: ShapeField = oneOf(...floatTypes);
export const computedType: ShapeField = oneOf(...floatTypes, ...integerTypes);
