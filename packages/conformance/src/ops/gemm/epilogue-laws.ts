import { type ComputeBackend, dtypeBytes, type FloatType } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { extent, oddPlacement, someExtra } from "../../arbitraries/shapes.js";
import { refuses, withAllocations } from "../../kit/checks.js";
import type { Law, LawContext } from "../../law.js";
import { productSum } from "../../tolerance.js";
import { measure } from "../../workspace.js";
import {
  activationTolerance,
  type Finish,
  finished,
  finishedInTurn,
  finishes,
  unlessEpilogue,
} from "../epilogue.js";
import {
  batchedGemmCases,
  checkEmpty,
  checkExact,
  checkUnread,
  checkWithinBound,
  extentsOf,
  floatOperands,
  type GemmCase,
  type GemmCaseOptions,
  gemmCase,
  gemmCases,
  runGemm,
} from "./cases.js";
import { roundings } from "./formula.js";

type Product = "gemm" | "batchedGemm";

/** Whole numbers stay whole. */
const wholeFinishes = fc.constantFrom<Finish>(
  { bias: true },
  { bias: true, activation: "relu" },
  { bias: false, activation: "relu" },
  { bias: true, activation: "relu6" },
);

const arbitraries: Readonly<Record<Product, (options?: GemmCaseOptions) => Arbitrary<GemmCase>>> = {
  gemm: (options) => gemmCases(options),
  batchedGemm: (options) => batchedGemmCases(options),
};

/** Past the thresholds at which kernels are chosen differently, or sums are split. */
const largeCases: Readonly<Record<Product, readonly GemmCase[]>> = {
  gemm: finishedInTurn([
    gemmCase({ m: 130, n: 67, k: 300, transA: true, padC: 5, beta: 1 }),
    gemmCase({ m: 1, n: 1000, k: 513, transB: true }),
    gemmCase({ m: 1, n: 132, k: 1032, transB: true }),
    gemmCase({ m: 33, n: 36, k: 2049, alpha: 0.5 }),
    gemmCase({ m: 5, n: 7, k: 4099, beta: -1 }),
    gemmCase({ m: 1000, n: 1, k: 513 }),
    gemmCase({ m: 256, n: 256, k: 64, transB: true }),
    gemmCase({ m: 9, n: 2100, k: 20 }),
    gemmCase({ m: 48, n: 24, k: 700, transA: true, alpha: 0.5, beta: -1 }),
    gemmCase({ m: 12, n: 40, k: 1030, padC: 4, beta: 0.5 }),
  ]),
  batchedGemm: finishedInTurn([
    gemmCase({ batch: 3, m: 130, n: 67, k: 129, transB: true }),
    gemmCase({ batch: 2, m: 33, n: 17, k: 2049, beta: 1 }),
    gemmCase({ batch: 130, m: 3, n: 5, k: 7, stepB: "broadcast" }),
    gemmCase({ batch: 3, m: 20, n: 24, k: 600, stepA: "broadcast", stepC: "gap", alpha: 0.5, beta: -1 }),
    gemmCase({ batch: 4, m: 64, n: 64, k: 64, stepC: "side by side" }),
  ]),
};

/** Laws on the bias and the activation of gemm or batchedGemm: the same as of their sums. */
export function productEpilogueLaws(operation: Product, dtype: FloatType): readonly Law[] {
  const cases = (options?: GemmCaseOptions) => finished(arbitraries[operation](options), finishes);
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: operation, name: `epilogue: ${name}`, operation, dtype, run },
    exempt: unlessEpilogue(operation, dtype),
  });
  const largest = operation === "gemm" ? 129 : 33;
  const whole = { alphas: [1, -1, 2], betas: [0, 1, -1, 2] };
  const longSums = { ...whole, largest: 17, k: fc.integer({ min: 200, max: 1400 }) };
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(
        finished(fc.oneof(arbitraries[operation](whole), arbitraries[operation](longSums)), wholeFinishes),
        (value) => checkExact(context, dtype, operation, value),
      ),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(cases({ largest }), (value) => checkWithinBound(context, dtype, operation, value)),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases[operation], (value) => checkWithinBound(context, dtype, operation, value), {
        quick: 4,
      }),
    ),
    law("touches nothing but the elements of C", (context) =>
      context.forAll(cases({ pad: someExtra, placement: oddPlacement, betas: [0], largest: 33 }), (value) =>
        checkWithinBound(context, dtype, operation, value),
      ),
    ),
    law("applies where alpha or k is 0, with A and B unread", (context) =>
      context.forAll(
        fc.oneof(cases({ alphas: [0], largest: 33 }), cases({ k: fc.constant(0), largest: 33 })),
        (value) => checkUnread(context, dtype, operation, value),
      ),
    ),
    law("takes zero extents for nothing to do", (context) =>
      context.forAll(
        fc
          .tuple(cases({ largest: 9 }), fc.constantFrom("m" as const, "n" as const))
          .map(([value, name]): GemmCase => ({ ...value, [name]: 0 })),
        (value) => checkEmpty(context, dtype, operation, value),
        { runs: 0.5 },
      ),
    ),
    {
      ...law("gives what adding the bias and applying the activation afterwards give", (context) =>
        context.forAll(
          finished(
            arbitraries[operation]({
              largest: 33,
              k: extent(65),
              data: fc.constantFrom("uniform", "normal"),
            }),
            fc.constant<Finish>({ bias: true, activation: "silu" }),
          ),
          (value) => likeUnfused(context, dtype, operation, value),
        ),
      ),
      exempt: (capabilities, backend) =>
        unlessEpilogue(operation, dtype)(capabilities, backend) ??
        (backend.supports("unary", { kind: "silu" }) && backend.supports("binary", { kind: "add" })
          ? undefined
          : "silu or add in f32 is not supported"),
    },
    law("refuses a bias or an activation that cannot be", (context) =>
      refusals(context.backend, dtype, operation),
    ),
  ];
}

/**
 * Returns expected values from a second path: the sums by the operation itself, the rest by binary and unary,
 * all in f32, for which f16 operands are widened.
 */
async function likeUnfused(
  context: LawContext,
  dtype: FloatType,
  operation: Product,
  value: GemmCase,
): Promise<void> {
  const { backend, numerics } = context;
  const operands = floatOperands(value, dtype);
  const { got, expected } = await runGemm(backend, dtype, operation, value, operands);
  const { activation: _, bias: __, ...sumsOnly } = value;
  const { a, b, c, bias } = operands;
  const sums = await runGemm(backend, "f32", operation, sumsOnly, { a, b, c });
  const input = Float32Array.from(sums.expected.places, (place) => sums.got[place]!);
  const output = new Float32Array(input.length);
  const sizes = [input.byteLength, 4 * value.n, input.byteLength] as const;
  await withAllocations(backend, sizes, async (from, added, to) => {
    backend.copyHtoD(from, input);
    backend.copyHtoD(added, Float32Array.from(bias!));
    const shapes = { shapeA: [input.length / value.n, value.n], shapeB: [value.n] };
    backend.binary({ kind: "add", a: from, b: added, output: from, ...shapes });
    backend.unary({ kind: "silu", n: input.length, input: from, output: to });
    await backend.copyDtoH(output, to);
  });
  const bound = productSum(roundings(value.k, value.bias), "f32", numerics, value.alpha);
  // Each of the two may be off, from an exact value that neither is.
  const tolerance = (_y: number, magnitude: number, i: number): number => {
    const x = expected.values[i]!;
    const allowed = (type: FloatType) => activationTolerance("silu", x, bound(x, magnitude), type, numerics);
    return 1.01 * (allowed(dtype) + allowed("f32"));
  };
  measure(context, extentsOf(operation, value), got, { ...expected, values: [...output] }, tolerance);
}

async function refusals(backend: ComputeBackend, dtype: FloatType, operation: Product): Promise<void> {
  const size = dtypeBytes[dtype];
  await withAllocations(backend, [64, 64, 64, 8 * size], async (a, b, c, bias) => {
    const call = (change: Readonly<Record<string, unknown>>) => () => {
      const args = { m: 2, n: 3, k: 2, a, b, c, dtype, ...change };
      if (operation === "gemm") backend.gemm(args);
      else backend.batchedGemm({ ...args, batch: 1 });
    };
    const at = (handle: number, byteOffset: number) => ({ bias: { handle, byteOffset } });
    const inside = 4 * size;
    refuses("INVALID_ARGUMENT", "a bias that is C", call({ bias: c }));
    refuses("INVALID_ARGUMENT", "a bias over the end of C", call(at(c, 5 * size)));
    refuses("OUT_OF_BOUNDS", "a bias past the end", call(at(bias, 6 * size)));
    refuses("INVALID_ARGUMENT", "a bias between elements", call(at(bias, inside + 1)));
    refuses("INVALID_HANDLE", "a bias that is nobody's", call({ bias: 0 }));
    for (const activation of ["sigmoid", "GELU", "", 1, null, true])
      refuses("INVALID_ARGUMENT", `activation ${String(activation)}`, call({ bias, activation }));
    call({ ...at(c, 6 * size), activation: "relu" })();
    await backend.synchronize();
  });
}
