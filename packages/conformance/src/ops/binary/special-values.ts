import { arithmeticKinds, binaryKinds, type FloatType, isComparison } from "@backplane/core";
import { floatFormats, heldBy, storages } from "../../elements.js";
import { comparisons } from "../../functions.js";
import { binaryEntries } from "../../kinds/binary.js";
import type { BinaryEntry, Triple } from "../../kinds/entry.js";
import { expectBinary, kept, numericsLaw } from "../../kit/values.js";
import type { Law } from "../../law.js";

const comparisonKinds = binaryKinds.filter(isComparison);

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

const pairsWithNaN: NonNullable<BinaryEntry["nanOf"]> = [
  [nan, 2],
  [2, nan],
  [nan, nan],
];

/** Laws on numbers that not every backend keeps: NaN, infinities, subnormal numbers, zeros with a sign. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const { largest, smallestSubnormal: least } = floatFormats[dtype];
  const half = storages[dtype].smallestNormal / 2;
  const law = (
    name: string,
    promise: Parameters<typeof kept>[0],
    triplesOf: (entry: BinaryEntry) => readonly Triple[] | undefined,
  ) =>
    numericsLaw(dtype, "binary", name, kept(promise), async (context) => {
      for (const kind of arithmeticKinds) {
        const triples = triplesOf(binaryEntries[kind])?.map(([a, b, y]) => [a, b, heldBy(dtype, y)] as const);
        if (triples !== undefined) await expectBinary(context, dtype, kind, triples);
      }
    });
  return [
    law("gives NaN for NaN on either side", "nan", ({ nanOf = pairsWithNaN }) =>
      nanOf.map(([a, b]) => [a, b, nan] as const),
    ),
    law("gives NaN where a function is not defined", "nan", ({ undefinedAt }) =>
      undefinedAt?.map(([a, b]) => [a, b, nan] as const),
    ),
    numericsLaw(dtype, "binary", "compares NaN with nothing", kept("nan"), async (context) => {
      for (const kind of comparisonKinds)
        await expectBinary(
          context,
          dtype,
          kind,
          pairsWithNaN.map(([a, b]) => [a, b, Number(kind === "notEqual")] as const),
        );
    }),
    numericsLaw(dtype, "binary", "compares infinities", kept("infinity"), async (context) => {
      for (const kind of comparisonKinds)
        await expectBinary(
          context,
          dtype,
          kind,
          [
            [infinity, largest],
            [largest, infinity],
            [-infinity, infinity],
            [infinity, infinity],
            [-infinity, -infinity],
          ].map(([a, b]) => [a!, b!, comparisons[kind](a!, b!)] as const),
        );
    }),
    law("takes and gives infinities, and overflows to them", "infinity", ({ limits }) => limits?.(largest)),
    law("reads and writes subnormal numbers", "subnormals", ({ subnormals }) => subnormals?.(least, half)),
    numericsLaw(dtype, "binary", "compares subnormal numbers", kept("subnormals"), async (context) => {
      for (const kind of comparisonKinds)
        await expectBinary(context, dtype, kind, [
          [0, least, comparisons[kind](0, least)],
          [-least, 0, comparisons[kind](-least, 0)],
          [least, 2 * least, comparisons[kind](least, 2 * least)],
        ]);
    }),
    law("keeps the sign of zeros", "signedZero", ({ zeros }) => zeros),
  ];
}
