import {
  activations,
  type BatchedGemmArguments,
  costOf,
  dtypeBytes,
  type GemmArguments,
} from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: GemmArguments = { m: 3, n: 4, k: 5, a: place(1), b: place(2), c: place(3) };
const batched: BatchedGemmArguments = { ...plain, batch: 2 };

function refuses(change: object, argument: string, message = /./): void {
  const args = { ...batched, ...change };
  const error = throws("INVALID_ARGUMENT", () => resolve("batchedGemm", args), argument);
  assert.equal(error.operation, "batchedGemm");
  assert.match(error.message, message);
}

describe("gemm descriptor", () => {
  it("fills in every default", () => {
    assert.deepEqual(problemOf("gemm", plain), {
      ...{ dtype: "f32", m: 3, n: 4, k: 5, alpha: 1, beta: 0, transA: false, transB: false },
      ...{ lda: 5, ldb: 4, ldc: 4, batch: 1, strideA: 15, strideB: 20, strideC: 12 },
      a: { memory: 1, byteOffset: 0, byteLength: 60 },
      b: { memory: 2, byteOffset: 0, byteLength: 80 },
      c: { memory: 3, byteOffset: 0, byteLength: 48 },
      ...{ bias: undefined, activation: undefined },
    });
  });

  it("takes tight leading dimensions and strides from the stored, not the transposed matrices", () => {
    const problem = problemOf("batchedGemm", { ...batched, transA: true, transB: true });
    assert.deepInclude(problem, { lda: 3, ldb: 5, ldc: 4, strideA: 15, strideB: 20, strideC: 12 });
  });

  it("cuts off what would lead to a second row or matrix where there is none", () => {
    const far = 2 ** 32 + 8;
    const strides = { strideA: far, strideB: far, strideC: far, batch: 1 };
    const row = { ...batched, ...strides, m: 1, lda: far, ldb: 9, ldc: far };
    const cut = 2 ** 30;
    assert.deepInclude(problemOf("batchedGemm", row), { lda: cut, ldb: 9, ldc: cut });
    assert.deepInclude(problemOf("batchedGemm", row), { strideA: cut, strideB: cut, strideC: cut });
    // Never below the row itself.
    const long = { ...plain, m: 2 ** 31, n: 1, k: 1, transA: true, lda: 2 ** 33 };
    assert.deepInclude(problemOf("gemm", long), { lda: 2 ** 31, ldb: 1, ldc: 1, strideA: 2 ** 31 });
  });

  it("sizes regions to the last element, without the gap after the last row", () => {
    const problem = problemOf("batchedGemm", { ...batched, lda: 7, ldb: 6, ldc: 9, dtype: "f16" });
    assert.equal(problem.a.byteLength, 2 * (3 * 7 + 2 * 7 + 5));
    assert.equal(problem.b.byteLength, 2 * (5 * 6 + 4 * 6 + 4));
    assert.equal(problem.c.byteLength, 2 * (3 * 9 + 2 * 9 + 4));
  });

  it("refuses sizes that are not whole numbers from 0 to 2^53 - 1", () => {
    for (const argument of ["m", "n", "k", "batch"])
      for (const value of [-1, 1.5, Number.NaN, Infinity, 2 ** 53, "3", null, undefined])
        refuses({ [argument]: value }, argument, /allowed: whole numbers from 0 to 2\^53 - 1$/);
  });

  it("refuses scalars and flags of the wrong kind", () => {
    for (const argument of ["alpha", "beta"])
      for (const value of [Number.NaN, Infinity, 1e39, "1"]) refuses({ [argument]: value }, argument);
    for (const argument of ["transA", "transB"])
      for (const value of [1, "true"]) refuses({ [argument]: value }, argument);
    for (const value of ["f64", "F32", 32]) refuses({ dtype: value }, "dtype");
  });

  it("rounds alpha and beta to f32, so that all backends multiply by the same numbers", () => {
    const { alpha, beta } = problemOf("gemm", { ...plain, alpha: 0.1, beta: 0.7 });
    assert.deepEqual([alpha, beta], [Math.fround(0.1), Math.fround(0.7)]);
    // What rounds to zero is zero: A and B are not read.
    assert.equal(problemOf("gemm", { ...plain, alpha: 1e-60 }).k, 0);
  });

  it("refuses leading dimensions below the columns of the stored matrix", () => {
    refuses({ lda: 4 }, "lda");
    refuses({ lda: 2, transA: true }, "lda");
    refuses({ ldb: 3 }, "ldb");
    refuses({ ldb: 4, transB: true }, "ldb");
    refuses({ ldc: 3 }, "ldc");
    for (const value of [-5, 5.5, Number.NaN, null, 2 ** 53]) refuses({ lda: value }, "lda");
    assert.equal(problemOf("gemm", { ...plain, lda: 3, transA: true }).lda, 3);
    assert.equal(problemOf("gemm", { ...plain, ldb: 5, transB: true }).ldb, 5);
  });

  it("refuses negative, fractional and immense strides", () => {
    for (const value of [-1, 0.5, 2 ** 53]) {
      refuses({ strideA: value }, "strideA");
      refuses({ strideB: value }, "strideB");
      refuses({ strideC: value }, "strideC");
    }
    assert.deepInclude(problemOf("batchedGemm", { ...batched, strideA: 0, strideB: 0 }), {
      strideA: 0,
      strideB: 0,
    });
  });

  it("refuses extents past 2^53 elements", () => {
    const large = 2 ** 30;
    refuses({ m: large, lda: large, k: 1 }, "strideA");
    refuses({ batch: large, strideA: large }, "a");
    refuses({ batch: large, strideB: large }, "b");
    refuses({ batch: large, strideC: large }, "c");
  });

  it("accepts exactly the batches of C that are documented, none of which overlap", () => {
    let accepted = 0;
    for (const batch of [1, 2, 3])
      for (const m of [1, 2, 3])
        for (const n of [1, 2])
          for (let ldc = n; ldc <= 7; ldc++)
            for (let strideC = 0; strideC <= 16; strideC++) {
              const args = { ...plain, m, n, batch, ldc, strideC };
              const documented =
                batch === 1 ||
                strideC >= (m - 1) * ldc + n ||
                (strideC >= n && (batch - 1) * strideC + n <= ldc);
              if (!documented) {
                throws("INVALID_ARGUMENT", () => resolve("batchedGemm", args), "strideC");
                continue;
              }
              accepted++;
              const { c } = problemOf("batchedGemm", args);
              const places = new Set<number>();
              for (let i = 0; i < batch; i++)
                for (let y = 0; y < m; y++) for (let x = 0; x < n; x++) places.add(i * strideC + y * ldc + x);
              assert.equal(places.size, batch * m * n, JSON.stringify(args));
              assert.equal(c.byteLength, 4 * (Math.max(...places) + 1), JSON.stringify(args));
            }
    assert.isAbove(accepted, 100);
  });

  it("refuses a C that shares bytes with A or B, and only then", () => {
    // C: 48 bytes from 64. A: 60 bytes. B: 80 bytes.
    const c = slice(7, 64);
    for (const [argument, size] of [
      ["a", 60],
      ["b", 80],
    ] as const) {
      for (const byteOffset of [64, 64 + 44, 64 - size + 4])
        throws(
          "INVALID_ARGUMENT",
          () => resolve("gemm", { ...plain, c, [argument]: slice(7, byteOffset) }),
          "c",
        );
      for (const byteOffset of [64 + 48, 64 - size]) {
        assert.isDefined(problemOf("gemm", { ...plain, c, [argument]: slice(7, byteOffset) }));
      }
      assert.isDefined(problemOf("gemm", { ...plain, c, [argument]: slice(8, 64) }));
    }
    assert.isDefined(problemOf("gemm", { ...plain, a: place(1), b: place(1) }), "A and B may overlap");
  });

  it("gives the bias one element for each column, whatever the batch, and passes the activation on", () => {
    for (const activation of activations) {
      const problem = problemOf("batchedGemm", { ...batched, bias: slice(4, 8), activation, dtype: "f16" });
      assert.equal(problem.activation, activation);
      assert.deepEqual(problem.bias, { memory: 4, byteOffset: 8, byteLength: 2 * 4 });
    }
    assert.isDefined(problemOf("gemm", { ...plain, k: 0, bias: place(4) }).bias);
  });

  it("refuses activations that there are not, and says which there are", () => {
    for (const activation of ["sigmoid", "tanh", "ReLU", "", null, 1, true]) {
      const args = { ...plain, activation } as unknown as GemmArguments;
      const error = throws("INVALID_ARGUMENT", () => resolve("gemm", args), "activation");
      assert.include(error.message, "relu, gelu, geluTanh, silu");
    }
  });

  it("refuses a C that shares bytes with the bias, and only then", () => {
    // C: 48 bytes from 64. The bias: 16 bytes.
    const c = slice(7, 64);
    for (const byteOffset of [64, 64 + 44, 64 - 12])
      throws("INVALID_ARGUMENT", () => resolve("gemm", { ...plain, c, bias: slice(7, byteOffset) }), "c");
    for (const byteOffset of [64 + 48, 64 - 16])
      assert.isDefined(problemOf("gemm", { ...plain, c, bias: slice(7, byteOffset) }));
    // Where nothing is written, no bias is needed.
    assert.isUndefined(resolve("gemm", { ...plain, m: 0, c, bias: slice(7, 64) }).problem);
  });

  it("counts one operation for each activation, and the bias once", () => {
    const epilogue = { bias: place(4), activation: "silu" } as const;
    const [without, with_] = [
      costOf("batchedGemm", batched),
      costOf("batchedGemm", { ...batched, ...epilogue }),
    ];
    assert.equal(with_.flops - without.flops, batched.batch * 3 * 4);
    assert.equal(with_.bytes - without.bytes, 4 * 4);
  });

  it("has nothing to do where C is empty", () => {
    for (const change of [{ m: 0 }, { n: 0 }, { m: 0, n: 0, k: 0 }])
      assert.isUndefined(resolve("gemm", { ...plain, ...change }).problem);
    assert.isUndefined(resolve("batchedGemm", { ...batched, batch: 0 }).problem);
  });

  it("turns alpha = 0 and k = 0 into one form that reads neither A nor B", () => {
    for (const change of [{ alpha: 0 }, { alpha: -0 }, { k: 0 }]) {
      const problem = problemOf("gemm", { ...plain, ...change, beta: 2 });
      assert.equal(problem.k, 0);
      assert.equal(problem.beta, 2);
      assert.equal(problem.a.byteLength, 0);
      assert.equal(problem.b.byteLength, 0);
      // What is not read may lie anywhere.
      assert.isDefined(problemOf("gemm", { ...plain, ...change, a: place(3), b: slice(3, 4) }));
    }
  });

  it("counts flops and bytes as a loop over the elements does", () => {
    for (const dtype of ["f32", "f16"] as const)
      for (const beta of [0, 0.5])
        for (const strides of [{}, { strideA: 0 }, { strideB: 0 }, { strideA: 0, strideB: 0 }]) {
          const args = { ...batched, batch: 3, beta, dtype, ldc: 11, ...strides };
          let multiplyAdds = 0;
          const read = new Set<string>();
          let written = 0;
          for (let i = 0; i < 3; i++)
            for (let y = 0; y < 3; y++)
              for (let x = 0; x < 4; x++) {
                written++;
                if (beta !== 0) read.add(`c ${i} ${y} ${x}`);
                for (let p = 0; p < 5; p++) {
                  multiplyAdds++;
                  read.add(`a ${"strideA" in strides ? 0 : i} ${y} ${p}`);
                  read.add(`b ${"strideB" in strides ? 0 : i} ${p} ${x}`);
                }
              }
          const size = dtypeBytes[dtype];
          assert.deepEqual(costOf("batchedGemm", args), {
            flops: 2 * multiplyAdds,
            bytes: size * (read.size + written),
          });
        }
    assert.deepEqual(costOf("gemm", { ...plain, m: 0 }), { flops: 0, bytes: 0 });
    assert.deepEqual(costOf("gemm", { ...plain, k: 0 }), { flops: 0, bytes: 48 });
  });
});
