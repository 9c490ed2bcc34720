import { type FloatType, type UnaryKind, unaryKinds } from "@backplane/core";
import type { Law } from "../law.js";
import { compute, expectBinary, expectSame, expectUnary, kept, numericsLaw } from "./numerics-case.js";

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

export function nanLaws(dtype: FloatType): readonly Law[] {
  return [
    numericsLaw(dtype, "unary", "gives NaN for NaN", kept("nan"), async (context) => {
      for (const kind of unaryKinds) await expectUnary(context, dtype, kind, [[nan, nan]]);
    }),
    numericsLaw(dtype, "unary", "gives NaN where a function is not defined", kept("nan"), async (context) => {
      await expectUnary(context, dtype, "sqrt", [[-1, nan]]);
      await expectUnary(context, dtype, "log", [[-1, nan]]);
      await expectUnary(context, dtype, "rsqrt", [[-1, nan]]);
    }),
    numericsLaw(dtype, "binary", "gives NaN for NaN on either side", kept("nan"), async (context) => {
      for (const kind of ["add", "sub", "mul", "div", "max", "min"] as const)
        await expectBinary(context, dtype, kind, [
          [nan, 2, nan],
          [2, nan, nan],
          [nan, nan, nan],
        ]);
      // NaN^0 and 1^NaN are 1 to some and NaN to others; no promise is made of them.
      await expectBinary(context, dtype, "pow", [
        [nan, 2, nan],
        [2, nan, nan],
        [-8, 0.5, nan],
      ]);
      await expectBinary(context, dtype, "div", [[0, 0, nan]]);
    }),
    numericsLaw(dtype, "reduce", "gives NaN where one element is NaN", kept("nan"), async ({ backend }) => {
      for (const kind of ["sum", "mean", "max", "min", "prod"] as const) {
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
  ];
}

export function infinityLaws(dtype: FloatType): readonly Law[] {
  const flag = kept("infinity");
  const largest = dtype === "f32" ? Math.fround(3.4e38) : 65504;
  return [
    numericsLaw(dtype, "unary", "takes and gives infinities", flag, async (context) => {
      const pairs: Partial<Record<UnaryKind, readonly (readonly [number, number])[]>> = {
        exp: [
          [infinity, infinity],
          [-infinity, 0],
          [1000, infinity],
        ],
        log: [
          [infinity, infinity],
          [0, -infinity],
        ],
        sqrt: [[infinity, infinity]],
        rsqrt: [
          [infinity, 0],
          [0, infinity],
        ],
        reciprocal: [
          [infinity, 0],
          [0, infinity],
        ],
        tanh: [
          [infinity, 1],
          [-infinity, -1],
        ],
        sigmoid: [
          [infinity, 1],
          [-infinity, 0],
        ],
        erf: [
          [infinity, 1],
          [-infinity, -1],
        ],
        softplus: [
          [infinity, infinity],
          [-infinity, 0],
        ],
        relu: [
          [infinity, infinity],
          [-infinity, 0],
        ],
        abs: [
          [infinity, infinity],
          [-infinity, infinity],
        ],
        neg: [
          [infinity, -infinity],
          [-infinity, infinity],
        ],
        floor: [
          [infinity, infinity],
          [-infinity, -infinity],
        ],
        ceil: [
          [infinity, infinity],
          [-infinity, -infinity],
        ],
        round: [
          [infinity, infinity],
          [-infinity, -infinity],
        ],
        sign: [
          [infinity, 1],
          [-infinity, -1],
        ],
      };
      for (const [kind, list] of Object.entries(pairs))
        await expectUnary(context, dtype, kind as UnaryKind, list);
    }),
    numericsLaw(
      dtype,
      "binary",
      "takes and gives infinities, and overflows to them",
      flag,
      async (context) => {
        await expectBinary(context, dtype, "add", [
          [infinity, 1, infinity],
          [largest, largest, infinity],
        ]);
        await expectBinary(context, dtype, "sub", [
          [1, infinity, -infinity],
          [-largest, largest, -infinity],
        ]);
        await expectBinary(context, dtype, "mul", [
          [infinity, -2, -infinity],
          [largest, 2, infinity],
        ]);
        await expectBinary(context, dtype, "div", [
          [1, 0, infinity],
          [-1, 0, -infinity],
          [largest, 0.25, infinity],
        ]);
        await expectBinary(context, dtype, "max", [
          [infinity, 1, infinity],
          [-infinity, 1, 1],
        ]);
        await expectBinary(context, dtype, "min", [
          [infinity, 1, 1],
          [-infinity, 1, -infinity],
        ]);
        await expectBinary(context, dtype, "pow", [
          [2, 1000, infinity],
          [2, infinity, infinity],
        ]);
      },
    ),
    numericsLaw(dtype, "gemm", "takes infinities, and overflows to them", flag, async ({ backend }) => {
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
    }),
    numericsLaw(dtype, "reduce", "takes infinities, and overflows to them", flag, async ({ backend }) => {
      const cases = [
        ["sum", [infinity, 1, 2], infinity],
        ["sum", [largest, largest, 0], infinity],
        ["max", [-infinity, -infinity, -infinity], -infinity],
        ["max", [1, infinity, 2], infinity],
        ["min", [infinity, infinity, infinity], infinity],
        ["prod", [largest, -2, 2], -infinity],
      ] as const;
      for (const [kind, input, expected] of cases) {
        if (!backend.supports("reduce", { dtype, kind })) continue;
        const got = await compute(backend, dtype, [input], 1, ([x], output) =>
          backend.reduce({ kind, shape: [3], input: x!, output, dtype }),
        );
        expectSame(`${kind} of ${input.join(", ")}`, got, [expected]);
      }
    }),
  ];
}

export function subnormalLaws(dtype: FloatType): readonly Law[] {
  const flag = kept("subnormals");
  // The smallest number of the type, and half the smallest normal one.
  const [least, half] = dtype === "f32" ? [2 ** -149, 2 ** -127] : [2 ** -24, 2 ** -15];
  return [
    numericsLaw(dtype, "unary", "reads and writes subnormal numbers", flag, async (context) => {
      await expectUnary(context, dtype, "neg", [
        [least, -least],
        [-half, half],
      ]);
      await expectUnary(context, dtype, "abs", [
        [-least, least],
        [half, half],
      ]);
      await expectUnary(context, dtype, "relu", [
        [least, least],
        [half, half],
      ]);
      await expectUnary(context, dtype, "ceil", [
        [least, 1],
        [half, 1],
      ]);
      await expectUnary(context, dtype, "sign", [
        [least, 1],
        [-half, -1],
      ]);
    }),
    numericsLaw(dtype, "binary", "reads and writes subnormal numbers", flag, async (context) => {
      await expectBinary(context, dtype, "add", [
        [least, least, 2 * least],
        [half, half, 2 * half],
      ]);
      await expectBinary(context, dtype, "sub", [
        [4 * half, 3 * half, half],
        [half, least, half - least],
      ]);
      await expectBinary(context, dtype, "mul", [
        [half, 2, 2 * half],
        [4 * half, 0.25, half],
      ]);
      await expectBinary(context, dtype, "div", [
        [half, 0.5, 2 * half],
        [4 * half, 4, half],
      ]);
      await expectBinary(context, dtype, "max", [
        [least, 0, least],
        [-least, -half, -least],
      ]);
    }),
    numericsLaw(dtype, "gemm", "reads and writes subnormal numbers", flag, async ({ backend }) => {
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
    }),
    numericsLaw(
      dtype,
      "reduce",
      "reads and writes subnormal numbers",
      flag,
      async ({ backend }) => {
        const got = await compute(backend, dtype, [[least, half, least]], 1, ([x], output) =>
          backend.reduce({ kind: "sum", shape: [3], input: x!, output, dtype }),
        );
        expectSame("sum", got, [half + 2 * least]);
      },
      true,
    ),
  ];
}

export function signedZeroLaws(dtype: FloatType): readonly Law[] {
  const flag = kept("signedZero");
  return [
    numericsLaw(dtype, "unary", "keeps the sign of zeros", flag, async (context) => {
      await expectUnary(context, dtype, "neg", [
        [0, -0],
        [-0, 0],
      ]);
      await expectUnary(context, dtype, "abs", [[-0, 0]]);
      await expectUnary(context, dtype, "sqrt", [
        [-0, -0],
        [0, 0],
      ]);
      await expectUnary(context, dtype, "floor", [
        [-0, -0],
        [0.5, 0],
      ]);
      await expectUnary(context, dtype, "ceil", [
        [-0, -0],
        [-0.5, -0],
      ]);
      await expectUnary(context, dtype, "round", [
        [-0, -0],
        [-0.25, -0],
        [0.25, 0],
        [-0.5, -0],
      ]);
      await expectUnary(context, dtype, "tanh", [
        [-0, -0],
        [0, 0],
      ]);
      await expectUnary(context, dtype, "sin", [
        [-0, -0],
        [0, 0],
      ]);
    }),
    numericsLaw(dtype, "binary", "keeps the sign of zeros", flag, async (context) => {
      await expectBinary(context, dtype, "add", [
        [-0, -0, -0],
        [-0, 0, 0],
        [1, -1, 0],
      ]);
      await expectBinary(context, dtype, "sub", [
        [-0, 0, -0],
        [0, 0, 0],
      ]);
      await expectBinary(context, dtype, "mul", [
        [-1, 0, -0],
        [-0, -2, 0],
      ]);
      await expectBinary(context, dtype, "div", [
        [0, -1, -0],
        [-0, -3, 0],
      ]);
    }),
  ];
}
