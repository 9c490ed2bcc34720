import {
  type Activation,
  activations,
  type FloatType,
  type Numerics,
  type OperationName,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { unaryFunctions } from "../functions.js";
import type { Law, LawContext } from "../law.js";
import { storage, type Tolerance, underflow } from "../tolerance.js";
import { type Expected, measure } from "../workspace.js";
import type { Emit, Write } from "./operation.js";
import { unaryError } from "./unary/index.js";

/** The options of a call beyond the sums. */
export interface Finish {
  readonly bias: boolean;
  readonly activation?: Activation;
}

/** A bias, an activation, or both. */
export const finishes: Arbitrary<Finish> = fc.constantFrom<Finish>(
  { bias: true },
  ...activations.flatMap((activation) => [
    { bias: true, activation },
    { bias: false, activation },
  ]),
);

/** Cases that each have an epilogue. */
export function finished<Case>(cases: Arbitrary<Case>, finish: Arbitrary<Finish>): Arbitrary<Case & Finish> {
  return fc.tuple(cases, finish).map(([value, end]) => ({ ...value, ...end }));
}

/** Fixed cases with one epilogue after another. */
export function finishedInTurn<Case>(cases: readonly Case[]): readonly (Case & Finish)[] {
  return cases.map((value, i) => ({
    ...value,
    ...{ bias: i % 3 !== 2, activation: activations[i % activations.length]! },
  }));
}

/** For laws on the epilogue, which backends need not have. */
export function unlessEpilogue(operation: OperationName, dtype: FloatType): NonNullable<Law["exempt"]> {
  return (_capabilities, backend) =>
    backend.supports(operation, { dtype, activation: "relu" })
      ? undefined
      : `${operation} in ${dtype} has no epilogue`;
}

/**
 * `measure` for results of an activation, or of none. `sums` are the values before the activation; `bound`
 * returns the error that those are allowed when they are stored as an element type.
 */
export function measureActivated(
  context: Pick<LawContext, "observe" | "numerics">,
  dtype: FloatType,
  extents: readonly number[],
  got: Float64Array,
  sums: Expected,
  activation: Activation | undefined,
  bound: (dtype: FloatType) => Tolerance,
): void {
  if (activation === undefined) {
    measure(context, extents, got, sums, bound(dtype));
    return;
  }
  const allowed = activated(activation, dtype, bound, context.numerics);
  const values = sums.values.map(unaryFunctions[activation]);
  measure(context, extents, got, { ...sums, values }, (_value, magnitude, i) =>
    allowed(sums.values[i]!, magnitude),
  );
}

/** Returns an `Emit` of sums that writes their activation; `bound` is as in `measureActivated`, or undefined. */
export function finishing(
  write: Write,
  activation: Activation | undefined,
  dtype: FloatType,
  bound: ((dtype: FloatType) => Tolerance) | undefined,
  numerics: Numerics | undefined,
): Emit {
  const apply = activation === undefined ? (sum: number) => sum : unaryFunctions[activation];
  if (bound === undefined || numerics === undefined) return (index, sum) => write(index, apply(sum), 0);
  const allowed = activation === undefined ? bound(dtype) : activated(activation, dtype, bound, numerics);
  return (index, sum, magnitude) => write(index, apply(sum), allowed(sum, magnitude));
}

/** Returns the tolerance of the activation of a sum, given that sum. */
function activated(
  activation: Activation,
  dtype: FloatType,
  bound: (dtype: FloatType) => Tolerance,
  numerics: Numerics,
): Tolerance {
  // Those that cut results off add no error and enlarge none.
  if (!isSmooth(activation)) return bound(dtype);
  const before = bound("f32");
  return (sum, magnitude) => activationTolerance(activation, sum, before(sum, magnitude), dtype, numerics);
}

/**
 * The largest slopes, rounded up: of gelu at x = sqrt(2), (1 + erf(1)) / 2 + e^-1 / sqrt(pi) = 1.1289; of
 * geluTanh 1.1290 at 1.42; of silu 1.0998 at 2.40.
 */
const steepest: Readonly<Record<SmoothActivation, number>> = { gelu: 1.13, geluTanh: 1.13, silu: 1.1 };

type SmoothActivation = Exclude<Activation, "relu" | "relu6">;

function isSmooth(activation: Activation): activation is SmoothActivation {
  return activation in steepest;
}

/**
 * Tolerance of an activation of a sum x that is off by `error` in f32: that error times the slope, the
 * activation's own error, and one rounding to the element type.
 */
export function activationTolerance(
  activation: SmoothActivation,
  x: number,
  error: number,
  dtype: FloatType,
  numerics: Numerics,
): number {
  const y = unaryFunctions[activation](x);
  const own = unaryError(activation)(x, y) + underflow(1, numerics);
  return steepest[activation] * error + own + storage(dtype, y, numerics);
}
