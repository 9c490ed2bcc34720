import type { FloatType } from "@backplane/core";
import { floatFormats, storages } from "../../elements.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law } from "../../law.js";

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Laws on numbers that not every backend keeps: NaN, infinities, subnormal numbers, zeros with a sign. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const { largest, smallestSubnormal: least } = floatFormats[dtype];
  const half = storages[dtype].smallestNormal / 2;
  return [
    numericsLaw(dtype, "reduce", "gives NaN where one element is NaN", kept("nan"), async ({ backend }) => {
      for (const kind of ["sum", "mean", "max", "min", "prod", "logSumExp"] as const) {
        if (!backend.supports("reduce", { dtype, kind })) continue;
        for (const place of [0, 1, 16, 40]) {
          const input = new Array<number>(41).fill(1).with(place, nan);
          const got = await compute(backend, dtype, [input], 1, ([x], output) =>
            backend.reduce({ kind, shape: [41], input: x!, output, dtype }),
          );
          expectSame(`${kind} with NaN at ${place}`, got, [nan]);
        }
      }
    }),
    numericsLaw(
      dtype,
      "reduce",
      "takes infinities, and overflows to them",
      kept("infinity"),
      async ({ backend }) => {
        const cases = [
          ["sum", [infinity, 1, 2], infinity],
          ["sum", [largest, largest, 0], infinity],
          ["max", [-infinity, -infinity, -infinity], -infinity],
          ["max", [1, infinity, 2], infinity],
          ["min", [infinity, infinity, infinity], infinity],
          ["prod", [largest, -2, 2], -infinity],
          ["logSumExp", [-infinity, -infinity, -infinity], -infinity],
          ["logSumExp", [1, infinity, -infinity], infinity],
          ["logSumExp", [-infinity, 3, -infinity], 3],
        ] as const;
        for (const [kind, input, expected] of cases) {
          if (!backend.supports("reduce", { dtype, kind })) continue;
          const got = await compute(backend, dtype, [input], 1, ([x], output) =>
            backend.reduce({ kind, shape: [3], input: x!, output, dtype }),
          );
          expectSame(`${kind} of ${input.join(", ")}`, got, [expected]);
        }
      },
    ),
    numericsLaw(
      dtype,
      "reduce",
      "reads and writes subnormal numbers",
      kept("subnormals"),
      async ({ backend }) => {
        const got = await compute(backend, dtype, [[least, half, least]], 1, ([x], output) =>
          backend.reduce({ kind: "sum", shape: [3], input: x!, output, dtype }),
        );
        expectSame("sum", got, [half + 2 * least]);
      },
      "sum",
    ),
  ];
}
