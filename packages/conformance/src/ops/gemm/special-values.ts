import type { FloatType } from "@backplane/core";
import { floatFormats, storages } from "../../elements.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law } from "../../law.js";

const { POSITIVE_INFINITY: infinity } = Number;

/** Laws on numbers that not every backend keeps: NaN, infinities, subnormal numbers, zeros with a sign. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const { largest, smallestSubnormal: least } = floatFormats[dtype];
  const half = storages[dtype].smallestNormal / 2;
  return [
    numericsLaw(
      dtype,
      "gemm",
      "takes infinities, and overflows to them",
      kept("infinity"),
      async ({ backend }) => {
        const got = await compute(
          backend,
          dtype,
          [
            [infinity, 1, largest, largest],
            [1, 1],
          ],
          2,
          ([a, b], c) => backend.gemm({ m: 2, n: 1, k: 2, a: a!, b: b!, c, dtype }),
        );
        expectSame("gemm", got, [infinity, infinity]);
      },
    ),
    numericsLaw(
      dtype,
      "gemm",
      "reads and writes subnormal numbers",
      kept("subnormals"),
      async ({ backend }) => {
        const got = await compute(
          backend,
          dtype,
          [
            [half, least],
            [1, 3, 1, 3],
          ],
          2,
          ([a, b], c) => backend.gemm({ m: 1, n: 2, k: 2, a: a!, b: b!, c, dtype }),
        );
        expectSame("gemm", got, [half + least, 3 * (half + least)]);
      },
    ),
  ];
}
