import { elementTypes, type IntegerType, integerTypes, type ReduceKind } from "@backplane/core";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { random } from "../../data.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { product } from "../../kit/shapes.js";
import type { Law, LawContext } from "../../law.js";
import {
  cases,
  check,
  emptyCases,
  largeShapes,
  manyAxes,
  ofNothing,
  type ReduceCase,
  reduceCase,
} from "./laws.js";

const kinds = ["sum", "max", "min", "prod"] as const satisfies readonly ReduceKind[];

/** Laws on integers, which wrap around: the result is the same in every order, and exact. */
export const exactLaws: readonly Law[] = integerTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: IntegerType): readonly Law[] {
  const { having, law } = lawsOnKinds("reduce", dtype, kinds);
  const exactly = (context: LawContext, value: ReduceCase) =>
    check(context, dtype, value, integers(value, dtype), () => 0);
  return [
    ...kinds.flatMap((kind) => [
      law(`${kind}: is exact`, [kind], (context) =>
        context.forAll(cases({ kinds: [kind] }), (value) => exactly(context, value), { runs: 2 }),
      ),
      law(`${kind}: is exact on larger shapes`, [kind], (context) =>
        context.forEach(
          largeShapes.map((shape) => reduceCase({ kind, ...shape })),
          (value) => exactly(context, value),
          { quick: 3 },
        ),
      ),
      law(`${kind}: of nothing is the identity of the type`, [kind], (context) =>
        context.forAll(emptyCases(kind), (value) => ofNothing(context, dtype, value)),
      ),
    ]),
    law("takes any number of axes", kinds, (context) =>
      context.forEach(
        manyAxes.flatMap((given) => having(context).map((kind) => reduceCase({ kind, ...given }))),
        (value) => exactly(context, value),
        { quick: 7 },
      ),
    ),
    law("touches nothing but the elements of its output", kinds, (context) =>
      context.forAll(cases({ kinds: having(context), placement: oddPlacement }), (value) =>
        exactly(context, value),
      ),
    ),
  ];
}

/** Numbers of all sizes, so that sums wrap around and no float type would hold them. */
function integers({ shape, seed, signs }: ReduceCase, dtype: IntegerType): Float64Array {
  const [least, largest] = elementTypes[dtype].range!;
  const next = random(seed);
  // Signed numbers below zero show a maximum that starts at 0.
  const low = signs === "positive" ? Math.max(least, 1) : least;
  const high = signs === "negative" && least < 0 ? -1 : largest;
  return new Float64Array(product(shape)).map(() => {
    const choice = next();
    if (choice < 0.1) return choice < 0.05 ? low : high;
    return Math.floor(low + next() * (high - low + 1));
  });
}
