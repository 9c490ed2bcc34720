import {
  type BinaryKind,
  binaryKinds,
  floatTypes,
  integerTypes,
  isComparison,
  logicalKinds,
} from "@backplane/core";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { integerFunctions } from "../../functions.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { product } from "../../kit/shapes.js";
import type { Law } from "../../law.js";
import type { NumberType } from "./formula.js";
import { cases, check, largeCases, outputShape } from "./laws.js";

const comparisonKinds = binaryKinds.filter(isComparison);
const integerKinds = Object.keys(integerFunctions.i32) as (keyof typeof integerFunctions.i32)[];

/** Laws without any tolerance: comparisons, whose results are bytes, the arithmetic of integers, and truth values. */
export const exactLaws: readonly Law[] = [
  ...floatTypes.flatMap((dtype) => lawsFor(dtype, comparisonKinds, "comparisons")),
  ...integerTypes.flatMap((dtype) => [
    ...lawsFor(dtype, integerKinds, "arithmetic"),
    ...lawsFor(dtype, comparisonKinds, "comparisons"),
  ]),
  ...lawsFor("u8", logicalKinds, "truth values"),
];

function lawsFor(dtype: NumberType, kinds: readonly BinaryKind[], what: string): readonly Law[] {
  const { having, law } = lawsOnKinds("binary", dtype, kinds);
  return [
    ...kinds.map((kind) =>
      law(`${kind}: is exact`, [kind], (context) =>
        context.forAll(cases([kind]), (value) => check(context, dtype, value)),
      ),
    ),
    law(`${what} broadcast as NumPy does`, kinds, (context) =>
      context.forAll(cases(having(context), { forms: ["shapes"] }), (value) => check(context, dtype, value), {
        runs: 2,
      }),
    ),
    law(`${what} broadcast larger shapes`, kinds, (context) => {
      const supported = having(context);
      const values = largeCases.map((value, i) => ({ ...value, kind: supported[i % supported.length]! }));
      return context.forEach(values, (value) => check(context, dtype, value), { quick: 3 });
    }),
    law(`${what} touch nothing but the elements of their output`, kinds, (context) =>
      context.forAll(
        cases(having(context), { placement: oddPlacement }),
        (value) => check(context, dtype, value),
        {
          runs: 2,
        },
      ),
    ),
    law(`${what} take zero extents for nothing to do`, kinds, (context) =>
      context.forAll(
        cases(having(context), { forms: ["shapes"], extents: [0, 1, 2] }).filter(
          (value) => product(outputShape(value)) === 0,
        ),
        (value) => check(context, dtype, value),
        { runs: 0.5 },
      ),
    ),
  ];
}
