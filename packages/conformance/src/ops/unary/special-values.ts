import { type FloatType, floatUnaryKinds } from "@backplane/core";
import { floatFormats, heldBy, storages } from "../../elements.js";
import type { UnaryEntry } from "../../kinds/entry.js";
import { unaryEntries } from "../../kinds/unary.js";
import { expectUnary, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";

const { NaN: nan } = Number;

/** Laws on numbers that not every backend keeps: NaN, infinities, subnormal numbers, zeros with a sign. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const { smallestSubnormal: least } = floatFormats[dtype];
  const half = storages[dtype].smallestNormal / 2;
  type Pairs = readonly (readonly [x: number, y: number])[];
  const expectAll = async (context: LawContext, pairsOf: (entry: UnaryEntry) => Pairs | undefined) => {
    for (const kind of floatUnaryKinds) {
      const pairs = pairsOf(unaryEntries[kind]);
      if (pairs !== undefined)
        await expectUnary(
          context,
          dtype,
          kind,
          pairs.map(([x, y]) => [x, heldBy(dtype, y)] as const),
        );
    }
  };
  const law = (
    name: string,
    promise: Parameters<typeof kept>[0],
    pairsOf: (entry: UnaryEntry) => Pairs | undefined,
  ) => numericsLaw(dtype, "unary", name, kept(promise), (context) => expectAll(context, pairsOf));
  return [
    law("gives NaN for NaN", "nan", () => [[nan, nan]]),
    law("gives NaN where a function is not defined", "nan", ({ undefinedAt }) =>
      undefinedAt?.map((x) => [x, nan] as const),
    ),
    law("takes and gives infinities", "infinity", ({ limits }) => limits),
    law("reads and writes subnormal numbers", "subnormals", ({ subnormals }) => subnormals?.(least, half)),
    law("keeps the sign of zeros", "signedZero", ({ zeros }) => zeros),
  ];
}
