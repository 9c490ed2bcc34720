import { type Activation, activations, type FloatType, type OperationName } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import type { Law, LawContext } from "../law.js";
import { unaryFunctions } from "../reference/elementwise.js";
import { activationTolerance, type Tolerance } from "../tolerance.js";
import { type Expected, measure } from "../workspace.js";

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
  const before = bound(activation === "relu" ? dtype : "f32");
  const allowed = (i: number): number => {
    const x = sums.values[i]!;
    const error = before(x, sums.magnitudes[i]!);
    return activation === "relu" ? error : activationTolerance(activation, x, error, dtype, context.numerics);
  };
  const values = sums.values.map(unaryFunctions[activation]);
  measure(context, extents, got, { ...sums, values }, (_value, _magnitude, i) => allowed(i));
}
