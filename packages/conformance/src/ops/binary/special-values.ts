import { binaryKinds, type FloatType, isComparison } from "@backplane/core";
import { floatFormats, storages } from "../../elements.js";
import { comparisons } from "../../functions.js";
import { expectBinary, kept, numericsLaw } from "../../kit/values.js";
import type { Law } from "../../law.js";

const comparisonKinds = binaryKinds.filter(isComparison);

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Laws on numbers that not every backend keeps: NaN, infinities, subnormal numbers, zeros with a sign. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const { largest, smallestSubnormal: least } = floatFormats[dtype];
  const half = storages[dtype].smallestNormal / 2;
  return [
    numericsLaw(dtype, "binary", "gives NaN for NaN on either side", kept("nan"), async (context) => {
      for (const kind of ["add", "sub", "mul", "div", "max", "min"] as const)
        await expectBinary(context, dtype, kind, [
          [nan, 2, nan],
          [2, nan, nan],
          [nan, nan, nan],
        ]);
      // NaN^0 and 1^NaN are 1 to some and NaN to others; no promise is made of them.
      await expectBinary(context, dtype, "pow", [
        [nan, 2, nan],
        [2, nan, nan],
        [-8, 0.5, nan],
      ]);
      await expectBinary(context, dtype, "div", [[0, 0, nan]]);
    }),
    numericsLaw(dtype, "binary", "compares NaN with nothing", kept("nan"), async (context) => {
      for (const kind of comparisonKinds)
        await expectBinary(context, dtype, kind, [
          [nan, 2, Number(kind === "notEqual")],
          [2, nan, Number(kind === "notEqual")],
          [nan, nan, Number(kind === "notEqual")],
        ]);
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
    numericsLaw(
      dtype,
      "binary",
      "takes and gives infinities, and overflows to them",
      kept("infinity"),
      async (context) => {
        await expectBinary(context, dtype, "add", [
          [infinity, 1, infinity],
          [largest, largest, infinity],
        ]);
        await expectBinary(context, dtype, "sub", [
          [1, infinity, -infinity],
          [-largest, largest, -infinity],
        ]);
        await expectBinary(context, dtype, "mul", [
          [infinity, -2, -infinity],
          [largest, 2, infinity],
        ]);
        await expectBinary(context, dtype, "div", [
          [1, 0, infinity],
          [-1, 0, -infinity],
          [largest, 0.25, infinity],
        ]);
        await expectBinary(context, dtype, "max", [
          [infinity, 1, infinity],
          [-infinity, 1, 1],
        ]);
        await expectBinary(context, dtype, "min", [
          [infinity, 1, 1],
          [-infinity, 1, -infinity],
        ]);
        await expectBinary(context, dtype, "pow", [
          [2, 1000, infinity],
          [2, infinity, infinity],
        ]);
      },
    ),
    numericsLaw(
      dtype,
      "binary",
      "reads and writes subnormal numbers",
      kept("subnormals"),
      async (context) => {
        await expectBinary(context, dtype, "add", [
          [least, least, 2 * least],
          [half, half, 2 * half],
        ]);
        for (const kind of comparisonKinds)
          await expectBinary(context, dtype, kind, [
            [0, least, comparisons[kind](0, least)],
            [-least, 0, comparisons[kind](-least, 0)],
            [least, 2 * least, comparisons[kind](least, 2 * least)],
          ]);
        await expectBinary(context, dtype, "sub", [
          [4 * half, 3 * half, half],
          [half, least, half - least],
        ]);
        await expectBinary(context, dtype, "mul", [
          [half, 2, 2 * half],
          [4 * half, 0.25, half],
        ]);
        await expectBinary(context, dtype, "div", [
          [half, 0.5, 2 * half],
          [4 * half, 4, half],
        ]);
        await expectBinary(context, dtype, "max", [
          [least, 0, least],
          [-least, -half, -least],
        ]);
      },
    ),
    numericsLaw(dtype, "binary", "keeps the sign of zeros", kept("signedZero"), async (context) => {
      await expectBinary(context, dtype, "add", [
        [-0, -0, -0],
        [-0, 0, 0],
        [1, -1, 0],
      ]);
      await expectBinary(context, dtype, "sub", [
        [-0, 0, -0],
        [0, 0, 0],
      ]);
      await expectBinary(context, dtype, "mul", [
        [-1, 0, -0],
        [-0, -2, 0],
      ]);
      await expectBinary(context, dtype, "div", [
        [0, -1, -0],
        [-0, -3, 0],
      ]);
    }),
  ];
}
