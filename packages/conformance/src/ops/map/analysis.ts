import {
  type BinaryKind,
  type FloatUnaryKind,
  isTest,
  type MapStep,
  type MapType,
  type Numerics,
  type UnaryKind,
} from "@backplane/core";
import { floatFormats } from "../../elements.js";
import { storage } from "../../tolerance.js";
import { functionOf } from "../binary/formula.js";
import { binaryTolerance } from "../binary/tolerance.js";
import { converted } from "../copy/formula.js";
import { functionOf as unaryFunctionOf } from "../unary/formula.js";
import { inDomain } from "../unary/laws.js";
import { unaryTolerance } from "../unary/tolerance.js";

/*
 * Running error analysis (N. Higham, Accuracy and Stability, section 3.3): beside the value of each step goes a bound of
 * its error, which is made of the errors of the operands, passed on by the function, and of the error that the function
 * itself is granted. Where a bound meets the border of a domain, overflow or a wrapping integer, anything may come out: it
 * is Infinity from there on.
 */

/** The value of a step in double precision, and how far a computed one may be from it. */
export interface Estimate {
  readonly value: number;
  readonly error: number;
}

const anything = (value: number): Estimate => ({ value, error: Number.POSITIVE_INFINITY });

/** A result in f32; anything if it may overflow. */
function float(value: number, error: number): Estimate {
  return Math.abs(value) + error < floatFormats.f32.largest / 2 ? { value, error } : anything(value);
}

/** Returns the estimate of a step that has operands. `numerics` undefined: nothing has an error. */
export function estimate(
  step: Exclude<MapStep, { readonly step: "input" | "parameter" | "constant" | "index" }>,
  of: (place: number) => Estimate,
  numerics: Numerics | undefined,
): Estimate {
  switch (step.step) {
    case "unary":
      return unaryEstimate(step, of(step.x), numerics);
    case "binary":
      return binaryEstimate(step, of(step.a), of(step.b), numerics);
    case "select":
      return selectEstimate(of(step.condition), of(step.a), of(step.b));
    case "convert":
      return convertEstimate(of(step.x), step.from, step.type, numerics);
  }
}

function unaryEstimate(
  { kind: any, of }: { readonly kind: UnaryKind; readonly of: MapType },
  x: Estimate,
  numerics: Numerics | undefined,
): Estimate {
  const apply = unaryFunctionOf(any, of);
  const value = apply(x.value);
  if (numerics === undefined) return { value, error: 0 };
  if (any === "logicalNot") return { value, error: x.error > 0 ? 1 : 0 };
  // What has a bound is a finite number.
  if (isTest(any))
    return Number.isFinite(x.error) && !Number.isNaN(x.value) ? { value, error: 0 } : anything(value);
  if (of !== "f32") return x.error === 0 ? { value, error: 0 } : anything(value);
  const kind = any as FloatUnaryKind;
  if (x.error === Number.POSITIVE_INFINITY || !Number.isFinite(value) || !inDomain(kind, "f32", x.value))
    return anything(value);
  // These turn around within an interval that is not short.
  const turns = kind === "sin" || kind === "cos";
  if (kind === "tan" && Math.abs(x.value) + x.error > 1.5) return anything(value);
  if (turns && x.error > 0.5) return { value, error: 2 + 2 ** -10 };
  let error = unaryTolerance(kind, x.value, value, "f32", numerics);
  if (x.error > 0)
    for (const end of [x.value - x.error, x.value + x.error]) {
      const there = apply(end);
      if (!Number.isFinite(there) || !inDomain(kind, "f32", end)) return anything(value);
      const granted = unaryTolerance(kind, end, there, "f32", numerics);
      error = Math.max(error, Math.abs(there - value) + granted);
    }
  // A pole within the interval.
  const hasPole = kind === "reciprocal" && Math.abs(x.value) <= x.error;
  return hasPole ? anything(value) : float(value, error);
}

function binaryEstimate(
  { kind, of }: { readonly kind: BinaryKind; readonly of: MapType },
  a: Estimate,
  b: Estimate,
  numerics: Numerics | undefined,
): Estimate {
  const value = functionOf(kind, of)(a.value, b.value);
  if (numerics === undefined) return { value, error: 0 };
  const passed = a.error + b.error;
  if (passed === Number.POSITIVE_INFINITY || Number.isNaN(value)) return anything(value);
  switch (kind) {
    case "equal":
    case "notEqual":
    case "less":
    case "lessEqual":
    case "greater":
    case "greaterEqual":
      return { value, error: passed > 0 && Math.abs(a.value - b.value) <= passed ? 1 : 0 };
    case "max":
    case "min":
      return { value, error: Math.max(a.error, b.error) };
  }
  // Results of logical kinds are 0 or 1.
  if (of === "u8") return { value, error: passed > 0 ? 1 : 0 };
  if (of !== "f32") return passed === 0 ? { value, error: 0 } : anything(value);
  if (kind === "add" || kind === "sub" || kind === "mul") {
    // Whole numbers that f32 holds are exact.
    const isExact =
      passed === 0 &&
      Number.isInteger(a.value) &&
      Number.isInteger(b.value) &&
      Math.abs(value) <= floatFormats.f32.exactUpTo;
    if (isExact) return { value, error: 0 };
    const spread =
      kind === "mul" ? Math.abs(a.value) * b.error + Math.abs(b.value) * a.error + a.error * b.error : passed;
    return float(value, spread + grantedNear(kind, a.value, b.value, value, spread, numerics));
  }
  if (kind === "div") {
    const least = Math.abs(b.value) - b.error;
    if (!(least > 2 ** -126) || Math.abs(b.value) + b.error > 2 ** 126) return anything(value);
    const spread = (a.error + Math.abs(value) * b.error) / least;
    return float(value, spread + grantedNear(kind, a.value, b.value, value, spread, numerics));
  }
  switch (kind) {
    case "mod":
    case "rem":
    case "floorDiv":
      return restEstimate(kind, a, b, value, numerics);
    case "atan2":
      return angleEstimate(a, b, value, numerics);
    case "pow":
      return powerEstimate(kind, a, b, value, numerics);
  }
  throw new Error(`there is no ${kind} of ${of}`);
}

/** A rest is less than the divisor, wherever the quotient jumps. */
function restEstimate(
  kind: "mod" | "rem" | "floorDiv",
  a: Estimate,
  b: Estimate,
  value: number,
  numerics: Numerics,
): Estimate {
  const [least, most] = [Math.abs(b.value) - b.error, Math.abs(b.value) + b.error];
  if (!(least > 2 ** -126) || most > 2 ** 126) return anything(value);
  const isExact = a.error === 0 && b.error === 0;
  const granted = binaryTolerance(kind, a.value, b.value, value, "f32", numerics);
  if (isExact) return float(value, granted);
  if (kind !== "floorDiv") return float(value, 2 * most);
  const spread = (a.error + (Math.abs(value) + 1) * b.error) / least + 1;
  return float(value, spread + granted + grantedNear("div", a.value, b.value, value, spread, numerics));
}

/** An angle rises or falls in both coordinates, unless the point may lie on the left axis, where it jumps. */
function angleEstimate(a: Estimate, b: Estimate, value: number, numerics: Numerics): Estimate {
  if (Math.abs(a.value) <= a.error + 2 ** -126 && b.value - b.error <= 0) return anything(value);
  let error = 0;
  for (const y of [a.value - a.error, a.value, a.value + a.error])
    for (const x of [b.value - b.error, b.value, b.value + b.error]) {
      const there = Math.atan2(y, x);
      const granted = binaryTolerance("atan2", y, x, there, "f32", numerics);
      error = Math.max(error, Math.abs(there - value) + granted);
    }
  return float(value, error);
}

/** The error of the function itself, where its result may be this much larger. */
function grantedNear(
  kind: "add" | "sub" | "mul" | "div",
  a: number,
  b: number,
  value: number,
  spread: number,
  numerics: Numerics,
): number {
  const larger = value + (value < 0 ? -spread : spread);
  return Math.max(
    binaryTolerance(kind, a, b, value, "f32", numerics),
    binaryTolerance(kind, a, b, larger, "f32", numerics),
  );
}

/** A power rises or falls in both operands, so that its range is that of the corners. */
function powerEstimate(kind: "pow", a: Estimate, b: Estimate, value: number, numerics: Numerics): Estimate {
  const isExact = a.error === 0 && b.error === 0;
  if (!Number.isFinite(value) || (!isExact && a.value - a.error <= 0)) return anything(value);
  let error = 0;
  for (const base of [a.value - a.error, a.value, a.value + a.error])
    for (const exponent of [b.value - b.error, b.value, b.value + b.error]) {
      const there = base ** exponent;
      const granted = binaryTolerance(kind, base, exponent, there, "f32", numerics);
      error = Math.max(error, Math.abs(there - value) + granted);
    }
  return Number.isNaN(error) ? anything(value) : float(value, error);
}

function selectEstimate(condition: Estimate, a: Estimate, b: Estimate): Estimate {
  const [taken, other] = condition.value !== 0 ? [a, b] : [b, a];
  if (condition.error === 0) return taken;
  const error = Math.max(taken.error, Math.abs(taken.value - other.value) + other.error);
  return Number.isNaN(error) ? anything(taken.value) : { value: taken.value, error };
}

function convertEstimate(x: Estimate, from: MapType, to: MapType, numerics: Numerics | undefined): Estimate {
  const value = converted(x.value, from, to);
  if (numerics === undefined || (x.error === 0 && !Number.isNaN(x.value))) {
    // An integer of more than 24 bits is rounded.
    const rounds = numerics !== undefined && to === "f32" && from !== "f32";
    return rounds ? { value, error: Math.abs(value - x.value) * 2 } : { value, error: 0 };
  }
  if (!Number.isFinite(x.error) || Number.isNaN(x.value)) return anything(value);
  // Between integers the low bits stay, which may be anything.
  if (from !== "f32" && to !== "f32" && from !== to) return anything(value);
  let error = 0;
  for (const end of [x.value - x.error, x.value + x.error])
    error = Math.max(error, Math.abs(converted(end, from, to) - value));
  return { value, error: to === "f32" ? error + Math.abs(value) * 2 ** -23 : error };
}

/** The estimate of an element as it is stored: rounded once more if it is an f16. */
export function stored(
  { value, error }: Estimate,
  dtype: MapType | "f16",
  numerics: Numerics | undefined,
): Estimate {
  if (numerics === undefined || dtype !== "f16" || error === Number.POSITIVE_INFINITY)
    return { value, error };
  const far = Math.abs(value) + error;
  if (far > floatFormats.f16.largest) return anything(value);
  const isHeld = error === 0 && Number.isInteger(value) && far <= floatFormats.f16.exactUpTo;
  return { value, error: isHeld ? 0 : error + storage("f16", far, numerics) };
}
