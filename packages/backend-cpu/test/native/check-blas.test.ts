import { assert } from "chai";
import { cblas, type Sgemm } from "#src/native/blas.js";
import { checkSgemm } from "#src/native/check-blas.js";

/** Arrays by address, so that a function in JavaScript can stand for one of a library. */
class Memory {
  readonly #arrays: Float32Array[] = [];

  readonly koffi = {
    load: () => assert.fail("nothing is to be loaded"),
    address: (view: ArrayBufferView) => BigInt(this.#arrays.push(view as Float32Array) - 1) << 32n,
  };

  at(address: number): Float32Array {
    return this.#arrays[address / 2 ** 32]!;
  }
}

/** What can be wrong with a library. */
interface Defects {
  readonly swapsLeadingDimensions?: boolean;
  readonly readsOldC?: boolean;
  readonly ignoresBeta?: boolean;
  readonly ignoresTranspose?: boolean;
  readonly skipsZeros?: boolean;
  readonly flushes?: boolean;
  readonly writesOneMore?: boolean;
}

function sgemmWith(memory: Memory, defects: Defects): Sgemm {
  const flush = (value: number): number => (defects.flushes && Math.abs(value) < 2 ** -126 ? 0 : value);
  return (_order, _transA, transB, m, n, k, alpha, aAt, lda, bAt, ldb, beta, cAt, ldc) => {
    const [a, b, c] = [memory.at(aAt), memory.at(bAt), memory.at(cAt)];
    const [aStep, bStep] = defects.swapsLeadingDimensions ? [ldc, lda - 1] : [lda, ldb];
    const transposed = transB === cblas.transpose && !defects.ignoresTranspose;
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n + (defects.writesOneMore ? 1 : 0); j++) {
        let sum = 0;
        for (let p = 0; p < k; p++) {
          const x = flush(a[i * aStep + p]!);
          if (defects.skipsZeros && x === 0) continue;
          sum += x * b[transposed ? j * bStep + p : p * bStep + j]!;
        }
        const keepsOld = (beta !== 0 || defects.readsOldC) && !defects.ignoresBeta;
        c[i * ldc + j] = alpha * sum + (keepsOld ? beta * c[i * ldc + j]! : 0);
      }
    }
  };
}

function verdict(defects: Defects): string | undefined {
  const memory = new Memory();
  return checkSgemm({ koffi: memory.koffi, sgemm: sgemmWith(memory, defects) });
}

describe("the check of a BLAS library", () => {
  it("accepts one that does what the standard says", () => {
    assert.isUndefined(verdict({}));
  });

  const cases: readonly (readonly [Defects, RegExp])[] = [
    [{ swapsLeadingDimensions: true }, /is wrong/],
    [{ ignoresTranspose: true }, /is wrong/],
    [{ readsOldC: true }, /reads C where beta is 0/],
    [{ ignoresBeta: true }, /where beta is 1/],
    [{ writesOneMore: true }, /is wrong/],
    [{ flushes: true }, /flushes subnormal numbers/],
    [{ skipsZeros: true }, /loses or spreads NaN/],
  ];
  for (const [defects, expected] of cases)
    it(`refuses one that ${Object.keys(defects).join()}`, () => {
      assert.match(String(verdict(defects)), expected);
    });
});
