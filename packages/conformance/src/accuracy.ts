import type { Accuracy, ArithmeticKind, FloatType, Numerics, UnaryKind, UnitsRange } from "@backplane/core";
import { floatFormats, storages } from "./elements.js";
import { ulp } from "./tolerance.js";

/*
 * How far a result may lie from the exact one under the accuracy that a backend declares for single functions
 * in `capabilities.accuracy`.
 */

/**
 * The largest error of the values of `reference/elementwise.ts`, in units of f32, for results that are normal
 * numbers. A test against 300 digits confirms it. Without it the suite could not recognise correct rounding.
 */
export const oracleUnits: number = 2 ** -18;

/** Returns the ranges declared for a unary function; undefined if none are. */
export function declaredRanges(
  accuracy: Accuracy | undefined,
  kind: UnaryKind,
): readonly UnitsRange[] | undefined {
  return (accuracy?.unary as Partial<Record<UnaryKind, readonly UnitsRange[]>> | undefined)?.[kind];
}

/** Returns the units declared for a binary function; undefined if none are. */
export function declaredUnits(accuracy: Accuracy | undefined, kind: ArithmeticKind): number | undefined {
  return (accuracy?.binary as Partial<Record<ArithmeticKind, number>> | undefined)?.[kind];
}

/** Returns the allowed error of a result whose exact value is y. If storing it loses bits, it includes one rounding to nearest. */
export function unitsTolerance(units: number, y: number, dtype: FloatType, numerics: Numerics): number {
  const { smallestNormal } = storages[dtype];
  const { bitsLost, smallestSubnormal } = floatFormats[dtype];
  const size = Math.abs(y);
  const rounding = bitsLost === 0 ? 0 : Math.max(ulp(size) * 2 ** bitsLost, smallestSubnormal) / 2;
  const error = (units + oracleUnits) * ulp(y) + rounding;
  // An error may lead to a subnormal number, which may become zero.
  return error + (numerics.subnormals === "flushed" && size - error < smallestNormal ? size : 0);
}

/**
 * Returns the value to compare a result with: the exact value y; an infinity if y, or y with an allowed
 * error, is out of range; undefined if anything is allowed.
 */
export function expectedOf(
  got: number,
  y: number,
  allowed: number,
  dtype: FloatType,
  numerics: Numerics,
): number | undefined {
  if (Number.isNaN(y)) return undefined;
  const { overflow } = floatFormats[dtype];
  const size = Math.abs(y);
  if (size >= overflow && numerics.infinity !== "kept") return undefined;
  const infinite = Math.sign(y) * Number.POSITIVE_INFINITY;
  const isOver = size - allowed >= overflow || size === Number.POSITIVE_INFINITY;
  return isOver || (size + allowed >= overflow && got === infinite) ? infinite : y;
}

/**
 * Returns the error of an f32 result in units in the last place; undefined if the result may have been
 * flushed to zero.
 */
export function unitsOff(got: number, y: number, numerics: Numerics): number | undefined {
  if (!(Math.abs(y) < floatFormats.f32.overflow)) return undefined;
  const isNearlySubnormal = Math.abs(y) < storages.f32.smallestNormal * (1 + 2 ** -19);
  if (got === 0 && isNearlySubnormal && numerics.subnormals === "flushed") return undefined;
  const error = Math.abs(got - y) / ulp(y);
  return Number.isNaN(error) ? Number.POSITIVE_INFINITY : error;
}
