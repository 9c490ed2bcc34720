import {
  type ArithmeticKind,
  arithmeticKinds,
  type FloatType,
  type FloatUnaryKind,
  floatTypes,
  floatUnaryKinds,
  type OperationName,
} from "@backplane/core";
import fc from "fast-check";
import { dataSeed } from "../arbitraries/shapes.js";
import type { Law, LawContext } from "../law.js";
import { checkErrors, sweepBinary, sweepUnary } from "./accuracy-case.js";
import { shapeLaws } from "./accuracy-shape.js";

/**
 * The accuracy of single functions, at arguments of every exponent, against the backend's declaration. If it
 * declares nothing, against the least bounds of all backends, as far as they reach.
 */
export const accuracyLaws: readonly Law[] = floatTypes.flatMap((dtype) => [
  ...floatUnaryKinds.map((kind) =>
    law(dtype, "unary", kind, async (context, seed) =>
      checkErrors(context, dtype, await sweepUnary(context, dtype, kind, seed)),
    ),
  ),
  ...arithmeticKinds.map((kind) =>
    law(dtype, "binary", kind, async (context, seed) =>
      checkErrors(context, dtype, await sweepBinary(context, dtype, kind, seed)),
    ),
  ),
  ...shapeLaws(dtype),
]);

function law(
  dtype: FloatType,
  operation: OperationName,
  kind: FloatUnaryKind | ArithmeticKind,
  check: (context: LawContext, seed: number) => Promise<void>,
): Law {
  return {
    ...{ topic: "accuracy", operation, dtype },
    name: `${kind}: stays within its declared units at every exponent`,
    exempt: (_capabilities, backend) =>
      backend.supports(operation, { dtype, kind }) ? undefined : `${kind} in ${dtype} is not supported`,
    // One case of the default mode has arguments of every exponent; soaking adds others.
    run: (context) =>
      context.forAll(fc.record({ seed: dataSeed }), ({ seed }) => check(context, seed), { runs: 0.05 }),
  };
}
