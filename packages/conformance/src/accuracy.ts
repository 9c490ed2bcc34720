import type { Accuracy, BinaryKind, DType, Numerics, UnaryKind, UnitsRange } from "@backplane/core";
import { ulp } from "./tolerance.js";

/*
 * How far a result may lie from the exact one by what a backend declares of single functions, in
 * `capabilities.accuracy`.
 */

/**
 * What the values of `reference/elementwise.ts` may be off themselves, in units of f32, of results that are
 * normal numbers: a test against 300 digits shows it. Without it, correct rounding could not be told.
 */
export const oracleUnits: number = 2 ** -18;

/** The ranges that are declared for a unary function; undefined where none are. */
export function declaredRanges(
  accuracy: Accuracy | undefined,
  kind: UnaryKind,
): readonly UnitsRange[] | undefined {
  return (accuracy?.unary as Partial<Record<UnaryKind, readonly UnitsRange[]>> | undefined)?.[kind];
}

/** The units that are declared for a binary function; undefined where none are. */
export function declaredUnits(accuracy: Accuracy | undefined, kind: BinaryKind): number | undefined {
  return (accuracy?.binary as Partial<Record<BinaryKind, number>> | undefined)?.[kind];
}

/** The smallest normal number, the distance of subnormal ones, and where numbers round to infinity. */
const format = {
  f32: { smallest: 2 ** -126, step: 2 ** -149, overflow: 2 ** 128 - 2 ** 103 },
  f16: { smallest: 2 ** -14, step: 2 ** -24, overflow: 65520 },
} as const;

/** The allowed error of a result whose exact value is y: in f16, one rounding to nearest on top. */
export function unitsTolerance(units: number, y: number, dtype: DType, numerics: Numerics): number {
  const { smallest, step } = format[dtype];
  const size = Math.abs(y);
  const rounding = dtype === "f32" ? 0 : Math.max(halfUlp(size), step / 2);
  const error = (units + oracleUnits) * ulp(y) + rounding;
  // An error may lead to a subnormal number, which may become zero.
  return error + (numerics.subnormals === "flushed" && size - error < smallest ? size : 0);
}

/** Half the distance of f16 numbers as large as this. */
function halfUlp(size: number): number {
  return ulp(size) * 2 ** 12;
}

/**
 * What a result is to be compared with: the exact value y; an infinity, where y is out of range, or so near to
 * the end that an allowed error leads there; undefined where anything is allowed.
 */
export function expectedOf(
  got: number,
  y: number,
  allowed: number,
  dtype: DType,
  numerics: Numerics,
): number | undefined {
  if (Number.isNaN(y)) return undefined;
  const { overflow } = format[dtype];
  const size = Math.abs(y);
  if (size >= overflow && numerics.infinity !== "kept") return undefined;
  const infinite = Math.sign(y) * Number.POSITIVE_INFINITY;
  const isOver = size - allowed >= overflow || size === Number.POSITIVE_INFINITY;
  return isOver || (size + allowed >= overflow && got === infinite) ? infinite : y;
}

/** The error of an f32 result in units in the last place; undefined where it may have been flushed to zero. */
export function unitsOff(got: number, y: number, numerics: Numerics): number | undefined {
  if (!(Math.abs(y) < format.f32.overflow)) return undefined;
  const isNearlySubnormal = Math.abs(y) < format.f32.smallest * (1 + 2 ** -19);
  if (got === 0 && isNearlySubnormal && numerics.subnormals === "flushed") return undefined;
  const error = Math.abs(got - y) / ulp(y);
  return Number.isNaN(error) ? Number.POSITIVE_INFINITY : error;
}
