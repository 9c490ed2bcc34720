import { type FloatType, type UnaryKind, unaryKinds } from "@backplane/core";
import { floatFormats, storages } from "../../elements.js";
import { expectUnary, kept, numericsLaw } from "../../kit/values.js";
import type { Law } from "../../law.js";

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Laws on numbers that not every backend keeps: NaN, infinities, subnormal numbers, zeros with a sign. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const { smallestSubnormal: least } = floatFormats[dtype];
  const half = storages[dtype].smallestNormal / 2;
  return [
    numericsLaw(dtype, "unary", "gives NaN for NaN", kept("nan"), async (context) => {
      for (const kind of unaryKinds) await expectUnary(context, dtype, kind, [[nan, nan]]);
    }),
    numericsLaw(dtype, "unary", "gives NaN where a function is not defined", kept("nan"), async (context) => {
      await expectUnary(context, dtype, "sqrt", [[-1, nan]]);
      await expectUnary(context, dtype, "log", [[-1, nan]]);
      await expectUnary(context, dtype, "rsqrt", [[-1, nan]]);
    }),
    numericsLaw(dtype, "unary", "takes and gives infinities", kept("infinity"), async (context) => {
      const pairs: Partial<Record<UnaryKind, readonly (readonly [number, number])[]>> = {
        exp: [
          [infinity, infinity],
          [-infinity, 0],
          [1000, infinity],
        ],
        expm1: [
          [infinity, infinity],
          [-infinity, -1],
          [1000, infinity],
        ],
        log: [
          [infinity, infinity],
          [0, -infinity],
        ],
        sqrt: [[infinity, infinity]],
        rsqrt: [
          [infinity, 0],
          [0, infinity],
        ],
        reciprocal: [
          [infinity, 0],
          [0, infinity],
        ],
        tanh: [
          [infinity, 1],
          [-infinity, -1],
        ],
        sigmoid: [
          [infinity, 1],
          [-infinity, 0],
        ],
        erf: [
          [infinity, 1],
          [-infinity, -1],
        ],
        softplus: [
          [infinity, infinity],
          [-infinity, 0],
        ],
        relu: [
          [infinity, infinity],
          [-infinity, 0],
        ],
        abs: [
          [infinity, infinity],
          [-infinity, infinity],
        ],
        neg: [
          [infinity, -infinity],
          [-infinity, infinity],
        ],
        floor: [
          [infinity, infinity],
          [-infinity, -infinity],
        ],
        ceil: [
          [infinity, infinity],
          [-infinity, -infinity],
        ],
        round: [
          [infinity, infinity],
          [-infinity, -infinity],
        ],
        sign: [
          [infinity, 1],
          [-infinity, -1],
        ],
      };
      for (const [kind, list] of Object.entries(pairs))
        await expectUnary(context, dtype, kind as UnaryKind, list);
    }),
    numericsLaw(dtype, "unary", "reads and writes subnormal numbers", kept("subnormals"), async (context) => {
      await expectUnary(context, dtype, "neg", [
        [least, -least],
        [-half, half],
      ]);
      await expectUnary(context, dtype, "abs", [
        [-least, least],
        [half, half],
      ]);
      await expectUnary(context, dtype, "relu", [
        [least, least],
        [half, half],
      ]);
      await expectUnary(context, dtype, "ceil", [
        [least, 1],
        [half, 1],
      ]);
      await expectUnary(context, dtype, "sign", [
        [least, 1],
        [-half, -1],
      ]);
    }),
    numericsLaw(dtype, "unary", "keeps the sign of zeros", kept("signedZero"), async (context) => {
      await expectUnary(context, dtype, "neg", [
        [0, -0],
        [-0, 0],
      ]);
      await expectUnary(context, dtype, "abs", [[-0, 0]]);
      await expectUnary(context, dtype, "sqrt", [
        [-0, -0],
        [0, 0],
      ]);
      await expectUnary(context, dtype, "floor", [
        [-0, -0],
        [0.5, 0],
      ]);
      await expectUnary(context, dtype, "ceil", [
        [-0, -0],
        [-0.5, -0],
      ]);
      await expectUnary(context, dtype, "round", [
        [-0, -0],
        [-0.25, -0],
        [0.25, 0],
        [-0.5, -0],
      ]);
      await expectUnary(context, dtype, "tanh", [
        [-0, -0],
        [0, 0],
      ]);
      await expectUnary(context, dtype, "sin", [
        [-0, -0],
        [0, 0],
      ]);
    }),
  ];
}
