import { type FloatType, floatTypes } from "@backplane/core";
import fc from "fast-check";
import { extent, oddPlacement, someExtra } from "../../arbitraries/shapes.js";
import { storages } from "../../elements.js";
import { correctlyRounded } from "../../kit/checks.js";
import type { Law, LawContext } from "../../law.js";
import { productSum, type Tolerance, tightProductSum } from "../../tolerance.js";
import { measure } from "../../workspace.js";
import {
  checkEmpty,
  checkExact,
  checkUnread,
  checkWithinBound,
  extentsOf,
  floatOperands,
  type GemmCase,
  gemmCase,
  gemmCases,
  longest,
  runGemm,
  shapeOf,
} from "./cases.js";
import { productEpilogueLaws } from "./epilogue-laws.js";

/** Shapes beyond the random ones, each past a threshold at which kernels are chosen differently. */
const largeCases: readonly GemmCase[] = [
  gemmCase({ m: 130, n: 67, k: 300 }),
  gemmCase({ m: 130, n: 67, k: 300, transA: true, padA: 2 }),
  gemmCase({ m: 130, n: 67, k: 300, transB: true, padB: 1 }),
  gemmCase({ m: 130, n: 67, k: 300, transA: true, transB: true, padC: 5, beta: 1 }),
  gemmCase({ m: 1, n: 1000, k: 513 }),
  gemmCase({ m: 1, n: 1000, k: 513, transB: true }),
  gemmCase({ m: 1, n: 132, k: 2056, transB: true, beta: 1 }),
  gemmCase({ m: 1000, n: 1, k: 513 }),
  gemmCase({ m: 1000, n: 1, k: 513, transA: true }),
  gemmCase({ m: 4, n: 515, k: 260, beta: 1 }),
  gemmCase({ m: 33, n: 33, k: 2049 }),
  gemmCase({ m: 5, n: 7, k: 4099, alpha: 0.5 }),
  gemmCase({ m: 1, n: 1, k: 10_007 }),
  gemmCase({ m: 256, n: 256, k: 64 }),
  gemmCase({ m: 257, n: 129, k: 65, padA: 3, padB: 3, padC: 3 }),
  gemmCase({ m: 192, n: 320, k: 32, transB: true }),
  gemmCase({ m: 9, n: 2100, k: 20 }),
  gemmCase({ m: 2100, n: 9, k: 20, transA: true }),
  gemmCase({ m: 48, n: 24, k: 700, transA: true, alpha: 0.5, beta: -1 }),
  gemmCase({ m: 12, n: 40, k: 1030, transB: true, padC: 4, beta: 0.5 }),
];

/** Sums so long that they are added up in parts, with everything else that has to come out right then. */
const longSums = gemmCases({
  ...{ largest: 33, k: fc.integer({ min: 200, max: 1400 }), alphas: [1, -1, 2], betas: [0, 1, -1, 2] },
});

/** Data with all mantissa bits in use, and cancelling data, which show a lost bit at once. */
const probes = gemmCases({
  k: extent(8),
  alphas: [1],
  betas: [0],
  data: fc.constantFrom("normal", "cancelling"),
});

export const gemmLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"], rest: Partial<Law> = {}): Law => ({
    ...{ topic: "gemm", name, operation: "gemm", dtype, run, ...rest },
  });
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(gemmCases({ alphas: [1, -1, 2], betas: [0, 1, -1, 2] }), (value) =>
        checkExact(context, dtype, "gemm", value),
      ),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(gemmCases(), (value) => checkWithinBound(context, dtype, "gemm", value), { runs: 2 }),
    ),
    law("is exact on whole numbers in long sums", (context) =>
      context.forAll(longSums, (value) => checkExact(context, dtype, "gemm", value)),
    ),
    law("is exact on whole numbers on larger shapes", (context) =>
      context.forEach(longest(largeCases), (value) => checkExact(context, dtype, "gemm", value), {
        quick: 4,
      }),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases, (value) => checkWithinBound(context, dtype, "gemm", value), { quick: 10 }),
    ),
    law(
      "stays within the tight bound where rounding is to nearest",
      (context) =>
        context.forAll(gemmCases(), async (value) => {
          const operands = floatOperands(value, dtype);
          const { got, expected } = await runGemm(context.backend, dtype, "gemm", value, operands);
          const tolerance = tightProductSum(value.k, dtype, context.numerics);
          measure(context, extentsOf("gemm", value), got, expected, tolerance);
        }),
      correctlyRounded,
    ),
    law("does not round its inputs or partial sums to fewer bits", (context) =>
      context.forAll(probes, (value) => checkWithinBound(context, dtype, "gemm", value)),
    ),
    law("touches nothing but the elements of C", (context) =>
      context.forAll(
        gemmCases({ pad: someExtra, placement: oddPlacement, betas: [0], largest: 129 }),
        (value) => checkWithinBound(context, dtype, "gemm", value),
      ),
    ),
    law("leaves A and B unread where alpha or k is 0", (context) =>
      context.forAll(unreadCases, (value) => checkUnread(context, dtype, "gemm", value)),
    ),
    law("takes zero extents for nothing to do", (context) =>
      context.forAll(emptyCases, (value) => checkEmpty(context, dtype, "gemm", value)),
    ),
    law(
      "scales exactly with powers of two",
      (context) =>
        context.forAll(scalingCases, ({ value, exponent }) => scaling(context, dtype, value, exponent)),
      {
        exempt: ({ numerics }) =>
          numerics.deterministic ? undefined : "results are declared not deterministic",
      },
    ),
    law("gives (A B)^T = B^T A^T", (context) =>
      context.forAll(gemmCases({ betas: [0] }), (value) => transposed(context, dtype, value)),
    ),
    ...productEpilogueLaws("gemm", dtype),
  ];
}

const unreadCases = fc.oneof(
  gemmCases({ alphas: [0], largest: 65 }),
  gemmCases({ k: fc.constant(0), largest: 65 }),
);

const emptyCases = fc
  .tuple(gemmCases({ largest: 17 }), fc.constantFrom("m", "n"))
  .map(([value, name]): GemmCase => ({ ...value, [name]: 0 }));

/** No wide data, whose products might leave the range of f16. */
const scalingCases = fc.record({
  value: gemmCases({ alphas: [1], betas: [0], data: fc.constantFrom("uniform", "normal", "sparse") }),
  exponent: fc.constantFrom(1, 2, 3),
});

async function scaling(
  context: LawContext,
  dtype: FloatType,
  value: GemmCase,
  exponent: number,
): Promise<void> {
  const { a, b, c } = floatOperands(value, dtype);
  const factor = 2 ** exponent;
  const once = await runGemm(context.backend, dtype, "gemm", value, { a, b, c });
  const scaledA = a.map((x) => x * factor);
  const again = await runGemm(context.backend, dtype, "gemm", value, { a: scaledA, b, c });
  const values = once.expected.places.map((place) => once.got[place]! * factor);
  // Subnormal results have fewer bits, and then the scaled one is the better.
  const smallest = 2 * storages[dtype].smallestNormal * factor;
  const tolerance = (result: number) => (Math.abs(result) <= smallest ? smallest : 0);
  measure(context, extentsOf("gemm", value), again.got, { ...once.expected, values }, tolerance);
}

/** B^T A^T is the same data read with both transposition flags turned over. */
async function transposed(context: LawContext, dtype: FloatType, value: GemmCase): Promise<void> {
  const { a, b, c } = floatOperands(value, dtype);
  const plain = await runGemm(context.backend, dtype, "gemm", value, { a, b, c });
  const { m, n, padA, padB, transA, transB } = value;
  const turned: GemmCase = {
    ...value,
    ...{ m: n, n: m, padA: padB, padB: padA, transA: !transB, transB: !transA },
  };
  const turnedC = new Float64Array((n - 1) * shapeOf(turned).ldc + m).fill(Number.NaN);
  const other = await runGemm(context.backend, dtype, "gemm", turned, { a: b, b: a, c: turnedC });
  const { ldc } = shapeOf(turned);
  const values = plain.expected.places.map((_, i) => other.got[(i % n) * ldc + Math.floor(i / n)]!);
  const bound = productSum(value.k + 3, dtype, context.numerics, value.alpha);
  // Each of the two may be off by the bound, from an exact value that neither is.
  const tolerance: Tolerance = (result, magnitude) => 2.01 * bound(result, magnitude);
  measure(context, extentsOf("gemm", value), plain.got, { ...plain.expected, values }, tolerance);
}
