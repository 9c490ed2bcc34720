// Tags: kernels, pure, long
import { type Activation, activations, type FloatType, type GemmProblem } from "@backplane/core";
import { gemmOperation } from "#src/kernels/gemm/gemm.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { unary } from "#src/kernels/unary/unary.js";
import { expectSameElements } from "../same-elements.js";
import { asStored, types } from "../types.js";
import { Workbench } from "../workbench.js";

/** Each way to a result: few rows, small, strips and blocks in stretches of k, a turned column, nothing to sum, rows in place. */
const shapes = {
  skinny: { m: 1, n: 1100, k: 30 },
  "skinny with some rows": { m: 13, n: 1100, k: 30 },
  "skinny, k in parts": { m: 1, n: 1100, k: 2000 },
  small: { m: 18, n: 21, k: 20 },
  strips: { m: 70, n: 330, k: 600 },
  "wide strips": { m: 34, n: 1050, k: 300 },
  blocks: { m: 270, n: 70, k: 600 },
  "wide blocks": { m: 257, n: 2060, k: 270 },
  column: { m: 301, n: 1, k: 40 },
  "nothing to sum": { m: 5, n: 9, k: 0 },
  "rows in place": { m: 50, n: 21, k: 20, alpha: 1, beta: 0 },
} as const;

type Shape = Readonly<Record<"m" | "n" | "k", number>> & Partial<Readonly<Record<"alpha" | "beta", number>>>;

const none = { bias: undefined, activation: undefined };

describe("gemm epilogue", () => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create([...gemmOperation().kernels, ...unary.kernels], { pages: 2048 });
  });

  const upload = (values: Float32Array, dtype: FloatType) => bench.upload(types[dtype].encode(values));

  /** Quarters, so that the sums are the same in every order and in f16. */
  const numbers = (count: number, seed: number): Float32Array =>
    Float32Array.from({ length: count }, (_, i) => (((i * 7 + seed * 5 + (i >> 3)) % 9) - 4) / 4);

  for (const [title, { m, n, k, alpha = 0.5, beta = 2 }] of Object.entries<Shape>(shapes))
    for (const workers of [1, 4])
      it(`${title}, ${workers} workers: gives what bias and activation make of the sums`, () => {
        const context = { ...bench.context, workers };
        const ldc = n === 1 ? 1 : n + 3;
        const extent = (m - 1) * ldc + n;
        const old = numbers(extent, 3).map((value, at) => (at % ldc < n ? value : 777));
        const shift = numbers(n, 4);
        const run = (
          dtype: FloatType,
          rest: Pick<GemmProblem<CpuMemory>, "bias" | "activation">,
        ): Float32Array => {
          const c = upload(old, dtype);
          const problem = {
            ...{ dtype, m, n, k, alpha, beta, transA: false, transB: false, batch: 1 },
            ...{ lda: Math.max(k, 1), ldb: n, ldc, strideA: 0, strideB: 0, strideC: 0 },
            ...{ a: upload(numbers(m * k, 1), dtype), b: upload(numbers(k * n, 2), dtype), c, ...rest },
          };
          bench.run(gemmOperation().plan(problem, context));
          return types[dtype].decode(bench.bytes(c).buffer);
        };
        const sums = run("f32", none).map((value, at) => (at % ldc < n ? value + shift[at % ldc]! : value));
        const expected = (activation: Activation | undefined): Float32Array => {
          if (activation === undefined) return sums;
          const region = bench.upload(sums);
          const problem = {
            kind: activation,
            dtype: "f32" as const,
            n: extent,
            input: region,
            output: region,
          };
          bench.run(unary.plan(problem, context));
          return bench.float32(region).map((value, at) => (at % ldc < n ? value : 777));
        };
        for (const activation of [undefined, ...activations])
          for (const dtype of ["f32", "f16"] as const) {
            const got = run(dtype, { bias: upload(shift, dtype), activation });
            const wanted = expected(activation);
            // One rounding at the very end.
            expectSameElements(got, asStored(dtype, wanted), `${dtype} ${activation}`);
          }
      });
});
