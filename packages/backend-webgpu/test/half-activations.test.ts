// Tags: kernels, pure
import { unaryFunctions } from "@backplane/conformance/functions";
import type { GemmProblem } from "@backplane/core";
import { assert } from "chai";
import { runGemm } from "#src/kernels/gemm/index.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { withProducts } from "./products.js";
import { decode } from "./support.js";

/** Negative arguments have tails, which must not cancel. */
const smooth = ["silu", "geluTanh", "gelu"] as const;

/** Distance of neighbouring numbers of f16 at `value`. */
const unit = (value: number): number => 2 ** Math.max(Math.floor(Math.log2(Math.abs(value))) - 10, -24);

describe("webgpu activations of results in f16", () => {
  const device = withProducts();

  for (const activation of smooth)
    it(`${activation} is rounded once, to within 0.05 units, from subnormal results to the largest, and NaN is kept`, async () => {
      // Products of one step, exact in f32: mantissas of 21 bits, from 2^-13 to 2^16, of both signs.
      const a = Float32Array.from({ length: 509 }, (_, i) =>
        i === 77 ? Number.NaN : 1 + ((i * 389) % 1024) / 1024,
      );
      const b = Float32Array.from({ length: 120 }, (_, j) => {
        return (j % 2 === 0 ? 1 : -1) * (1 + ((j * 211) % 1024) / 1024) * 2 ** (((j >> 1) % 28) - 13);
      });
      const [m, n] = [a.length, b.length];
      const c = device().place(new Float32Array(m * n), "f16");
      const problem: GemmProblem<DeviceMemory> = {
        ...{ dtype: "f16", m, n, k: 1, alpha: 1, beta: 0, transA: false, transB: false },
        ...{ lda: 1, ldb: n, ldc: n, batch: 1, strideA: m, strideB: n, strideC: m * n },
        ...{ a: device().place(a, "f16"), b: device().place(b, "f16"), c, bias: undefined },
        activation,
      };
      // A kernel that computes and packs four at once; others have the same formula for one.
      device().run((context) => runGemm(context, problem, "tiled_32x32x16_4x4"));
      assert.match(device().programs.join(), /^gemm_32x32[^,]*_c4_[^,]*$/);
      const results = decode((await device().bytes(c)).subarray(0, 2 * m * n), "f16");
      let subnormal = 0;
      for (const [i, result] of results.entries()) {
        const x = a[Math.floor(i / n)]! * b[i % n]!;
        const exact = unaryFunctions[activation](x);
        if (Number.isNaN(x)) {
          assert.isNaN(result);
          continue;
        }
        if (exact !== 0 && Math.abs(exact) < 2 ** -14) subnormal++;
        const error = Math.abs(result - exact) / unit(exact);
        if (!(error <= 0.55)) assert.fail(`${activation}(${x}) is ${result}, not ${exact}: ${error} units`);
      }
      assert.isAbove(subnormal, 50);
      device().free(problem.a, problem.b, c);
    });
});
