import type { GemmProblem } from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { gemmVariants, runGemm } from "#src/kernels/gemm/index.js";
import { placeholder } from "#src/kernels/segments/index.js";
import { matrixUnits } from "#src/kernels/units.js";
import type { KernelContext } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { withMatrixUnits } from "./emulated-matrices.js";
import { type BufferRegion, portable } from "./support.js";

type Shape = Pick<GemmProblem<DeviceMemory>, "m" | "n" | "k" | "batch" | "transB"> & { oneB?: boolean };

/** A product of aligned f16 operands that fill their memory. */
function problemOf({ oneB = false, ...shape }: Shape): GemmProblem<DeviceMemory> {
  const { m, n, k, batch, transB } = shape;
  return {
    ...{ dtype: "f16", transA: false, alpha: 1, beta: 0, activation: undefined, ...shape },
    ...{ lda: k, ldb: transB ? k : n, ldc: n, strideA: m * k, strideB: oneB ? 0 : k * n, strideC: m * n },
    ...{ a: placeholder(2 * batch * m * k), b: placeholder(2 * (oneB ? 1 : batch) * k * n) },
    ...{ c: placeholder(2 * batch * m * n), bias: placeholder(2 * n) },
  };
}

type Dispatch = { name: string; regions: Record<string, BufferRegion>; values: Record<string, number> };

/** What a kernel asks a device with matrix units and large bindings for. */
function asked(problem: GemmProblem<DeviceMemory>, variant: string) {
  const dispatches: Dispatch[] = [];
  let scratch = 0;
  const limits = { ...portable.limits, maxStorageBufferBindingSize: 2 ** 32 - 4 };
  const context: KernelContext = {
    features: withMatrixUnits({ ...portable, limits } as DeviceFeatures),
    dispatch: ({ name }, regions, values) => void dispatches.push({ name, regions, values } as Dispatch),
    scratch(bytes) {
      scratch += bytes;
      return placeholder(bytes);
    },
    copy: () => assert.fail("a copy"),
    fill: () => assert.fail("a fill"),
  };
  const { name } = gemmVariants.find((row) => row.name.startsWith(`matrices_${variant}`))!;
  runGemm(context, problem, name);
  return { dispatches, scratch };
}

describe("webgpu gemm that turns a long operand", () => {
  before(() => matrixUnits.load());

  const cases: readonly [string, "a" | "b", Shape, number][] = [
    ["128x256", "b", { m: 4096, n: 16_384, k: 16_384, batch: 1, transB: true }, 8],
    ["256x128", "a", { m: 16_384, n: 4096, k: 8192, batch: 1, transB: false }, 4],
    ["128x256", "b", { m: 4096, n: 5000, k: 8192, batch: 1, transB: true }, 2],
    ["128x256", "b", { m: 4096, n: 4096, k: 4096, batch: 5, transB: true }, 3],
    ["128x256", "b", { m: 4096, n: 8192, k: 8192, batch: 3, transB: true }, 6],
    ["128x256", "b", { m: 4096, n: 8192, k: 8192, batch: 3, transB: true, oneB: true }, 2],
    ["128x256", "b", { m: 4096, n: 4096, k: 8192, batch: 1, transB: true }, 1],
  ];
  for (const [tile, name, shape, count] of cases)
    it(`of ${JSON.stringify(shape)} takes no more scratch than sums of parts may, in ${count} pieces`, () => {
      const problem = problemOf(shape);
      const { dispatches, scratch } = asked(problem, tile);
      assert.isAtMost(scratch, 2 ** 26);
      assert.lengthOf(dispatches, 2 * count);
      const { m, n, k, batch, lda, ldb, strideA, strideB } = problem;
      /** The number of times that each run of eight results is computed. */
      const computed = new Uint8Array((batch * m * n) / 8);
      for (let i = 0; i < dispatches.length; i += 2) {
        const [turn, product] = dispatches.slice(i, i + 2) as [Dispatch, Dispatch];
        assert.equal(turn.name, "gemm_turn");
        const { regions, values } = product;
        // The place of the piece, by its results.
        const start = regions.c!.byteOffset / 2;
        const [matrix, row, column] = [
          Math.floor(start / (m * n)),
          Math.floor((start % (m * n)) / n),
          start % n,
        ];
        assert.equal(
          turn.regions.source!.byteOffset / 2,
          {
            a: matrix * strideA + row * lda,
            b: matrix * strideB + column * ldb,
          }[name],
        );
        assert.equal(regions[name], turn.regions.packed);
        const other = name === "a" ? "b" : "a";
        assert.equal(
          regions[other]!.byteOffset / 2,
          { a: matrix * strideA + row * lda, b: matrix * strideB + (problem.transB ? column * ldb : column) }[
            other
          ],
        );
        assert.equal(regions.bias!.byteOffset / 2, column);
        assert.equal(values.k, k);
        assert.equal(turn.values.rows, name === "a" ? values.m : values.n);
        assert.equal(turn.values.matrices, name === "b" && shape.oneB ? 1 : values.batch);
        for (let g = 0; g < values.batch!; g++)
          for (let r = 0; r < values.m!; r++) {
            const first = start + g * m * n + r * n;
            for (let j = first / 8; j < (first + values.n!) / 8; j++) computed[j]!++;
          }
      }
      assert.isTrue(computed.every((times) => times === 1));
    });
});
