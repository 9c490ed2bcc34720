import { type FloatType, floatTypes } from "@backplane/core";
import fc from "fast-check";
import { oddPlacement, someExtra } from "../../arbitraries/shapes.js";
import type { Law, LawContext } from "../../law.js";
import { productSum, type Tolerance } from "../../tolerance.js";
import { measure } from "../../workspace.js";
import {
  batchedGemmCases,
  checkEmpty,
  checkExact,
  checkUnread,
  checkWithinBound,
  extentsOf,
  floatOperands,
  type GemmCase,
  gemmCase,
  longest,
  runGemm,
  shapeOf,
} from "./cases.js";
import { productEpilogueLaws } from "./epilogue-laws.js";

const largeCases: readonly GemmCase[] = [
  gemmCase({ batch: 3, m: 130, n: 67, k: 129, transB: true }),
  gemmCase({ batch: 64, m: 16, n: 16, k: 16 }),
  gemmCase({ batch: 130, m: 3, n: 5, k: 7, stepB: "broadcast" }),
  gemmCase({ batch: 4, m: 64, n: 64, k: 64, stepC: "side by side" }),
  gemmCase({ batch: 6, m: 1, n: 257, k: 128, transB: true, stepA: "gap", stepB: "gap", stepC: "gap" }),
  gemmCase({ batch: 3, m: 1, n: 36, k: 264, transB: true, stepA: "broadcast" }),
  gemmCase({ batch: 2, m: 33, n: 17, k: 2049, beta: 1 }),
  gemmCase({ batch: 3, m: 20, n: 24, k: 600, stepA: "broadcast", stepC: "gap", alpha: 0.5, beta: -1 }),
  gemmCase({ batch: 5, m: 9, n: 1900, k: 250, data: "uniform" }),
  // One more than the largest dimension that a grid of workgroups may have.
  gemmCase({ batch: 65_536, m: 1, n: 1, k: 2 }),
];

export const batchedGemmLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "batchedGemm", name, operation: "batchedGemm", dtype, run },
  });
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(batchedGemmCases({ alphas: [1, -1, 2], betas: [0, 1, -1, 2] }), (value) =>
        checkExact(context, dtype, "batchedGemm", value),
      ),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(batchedGemmCases(), (value) => checkWithinBound(context, dtype, "batchedGemm", value), {
        runs: 2,
      }),
    ),
    law("is exact on whole numbers on larger shapes", (context) =>
      context.forEach(longest(largeCases), (value) => checkExact(context, dtype, "batchedGemm", value)),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases, (value) => checkWithinBound(context, dtype, "batchedGemm", value), {
        quick: 6,
      }),
    ),
    law("touches nothing but the elements of C, not even between the matrices", (context) =>
      context.forAll(
        batchedGemmCases({
          ...{ pad: someExtra, placement: oddPlacement, betas: [0], largest: 33 },
          ...{ stepA: ["gap"], stepB: ["gap"], stepC: ["gap", "side by side"] },
        }),
        (value) => checkWithinBound(context, dtype, "batchedGemm", value),
      ),
    ),
    law("uses one A or B for the whole batch where its stride is 0", (context) =>
      context.forAll(
        fc.oneof(
          batchedGemmCases({ stepA: ["broadcast"], largest: 33 }),
          batchedGemmCases({ stepB: ["broadcast"], largest: 33 }),
        ),
        (value) => checkWithinBound(context, dtype, "batchedGemm", value),
      ),
    ),
    law("leaves A and B unread where alpha or k is 0", (context) =>
      context.forAll(
        fc.oneof(
          batchedGemmCases({ alphas: [0], largest: 17 }),
          batchedGemmCases({ k: fc.constant(0), largest: 17 }),
        ),
        (value) => checkUnread(context, dtype, "batchedGemm", value),
      ),
    ),
    law("takes zero extents for nothing to do", (context) =>
      context.forAll(emptyCases, (value) => checkEmpty(context, dtype, "batchedGemm", value)),
    ),
    law("agrees with a loop of gemm", (context) =>
      context.forAll(batchedGemmCases({ largest: 33 }), (value) => likeLoop(context, dtype, value)),
    ),
    ...productEpilogueLaws("batchedGemm", dtype),
  ];
}

const emptyCases = fc
  .tuple(batchedGemmCases({ largest: 9 }), fc.constantFrom("batch", "m", "n"))
  .map(([value, name]): GemmCase => ({ ...value, [name]: 0 }));

async function likeLoop(context: LawContext, dtype: FloatType, value: GemmCase): Promise<void> {
  const { backend } = context;
  const operands = floatOperands(value, dtype);
  const { got, expected } = await runGemm(backend, dtype, "batchedGemm", value, operands);
  const { strideA, strideB, strideC, ldc } = shapeOf(value);
  const values: number[] = [];
  for (let i = 0; i < value.batch; i++) {
    const single: GemmCase = {
      ...value,
      ...{ batch: 1, stepA: "tight", stepB: "tight", stepC: "tight", padC: ldc - value.n },
    };
    const { got: one, expected: places } = await runGemm(backend, dtype, "gemm", single, {
      a: operands.a.subarray(i * strideA),
      b: operands.b.subarray(i * strideB),
      c: operands.c.subarray(i * strideC),
    });
    for (const place of places.places) values.push(one[place]!);
  }
  const bound = productSum(value.k + 3, dtype, context.numerics, value.alpha);
  const tolerance: Tolerance = (result, magnitude) => 2.01 * bound(result, magnitude);
  measure(context, extentsOf("batchedGemm", value), got, { ...expected, values }, tolerance);
}
