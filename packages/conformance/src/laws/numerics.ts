import { type ComputeBackend, type FloatType, floatTypes, type OperationName } from "@backplane/core";
import { draw } from "../data.js";
import type { Law, LawContext } from "../law.js";
import { binaryCall, type Call, compute, expectSame, numericsLaw, unaryCall } from "./numerics-case.js";
import { infinityLaws, nanLaws, signedZeroLaws, subnormalLaws } from "./special-values.js";

/** The promises beyond tolerances, flag by flag, and the rules that hold without a promise. */
export const numericsLaws: readonly Law[] = floatTypes.flatMap((dtype) => [
  ...spreadLaws(dtype),
  ...nanLaws(dtype),
  ...infinityLaws(dtype),
  ...subnormalLaws(dtype),
  ...signedZeroLaws(dtype),
  ...determinismLaws(dtype),
]);

/** An element that depends on a NaN must not affect its neighbours. */
function spreadLaws(dtype: FloatType): readonly Law[] {
  /** Result elements that depend on the NaN may hold anything, or must be NaN if that is kept. */
  const expectSpread = (
    context: LawContext,
    got: readonly number[],
    clean: readonly number[],
    hit: readonly boolean[],
  ) => {
    const keeps = context.backend.capabilities.numerics.nan === "kept";
    for (const [i, value] of clean.entries()) {
      // Results differ by rounding at most, and not even by that if they are deterministic.
      const isSame = Math.abs(got[i]! - value) <= 0.01;
      if (hit[i] ? keeps && !Number.isNaN(got[i]) : !isSame)
        throw new Error(
          `one input is NaN, ${hit[i] ? "which concerns" : "but not of"} result ${i}; it is ${got[i]}` +
            (hit[i] ? "" : `, not ${value}`),
        );
    }
  };
  const spread = (
    operation: OperationName,
    inputs: readonly (readonly number[])[],
    /** Which element of the first input becomes NaN. */
    place: number,
    hit: readonly boolean[],
    call: (backend: ComputeBackend) => Call,
  ) =>
    numericsLaw(
      dtype,
      operation,
      "a NaN reaches the results that depend on it, where NaN is kept, and no others",
      undefined,
      async (context) => {
        const { backend } = context;
        const clean = await compute(backend, dtype, inputs, hit.length, call(backend));
        const [first, ...rest] = inputs;
        const dirty = [first!.with(place, Number.NaN), ...rest];
        expectSpread(context, await compute(backend, dtype, dirty, hit.length, call(backend)), clean, hit);
      },
      true,
    );
  const whole = (n: number, from = 1) => Array.from({ length: n }, (_, i) => ((i + from) % 5) - 2);
  const at = (count: number, ...places: readonly number[]) =>
    Array.from({ length: count }, (_, i) => places.includes(i));
  const rows = (count: number, columns: number, row: number) =>
    Array.from({ length: count * columns }, (_, i) => Math.floor(i / columns) === row);
  return [
    spread(
      "gemm",
      [whole(9 * 7), whole(7 * 5)],
      3 * 7 + 2,
      rows(9, 5, 3),
      (backend) =>
        ([a, b], c) =>
          backend.gemm({ m: 9, n: 5, k: 7, a: a!, b: b!, c, dtype }),
    ),
    spread(
      "batchedGemm",
      [whole(3 * 4), whole(3 * 4)],
      5,
      at(12, 4, 5),
      (backend) =>
        ([a, b], c) =>
          backend.batchedGemm({ batch: 3, m: 2, n: 2, k: 2, a: a!, b: b!, c, dtype }),
    ),
    spread(
      "conv2d",
      [whole(2 * 9), whole(3)],
      9 + 4,
      at(18, 10, 13, 16),
      (backend) =>
        ([input, filter], output) =>
          backend.conv2d({
            ...{ input: input!, filter: filter!, output, dtype, padding: [1, 0, 1, 0] },
            ...{ inputShape: [2, 1, 3, 3], filterShape: [1, 1, 3, 1] },
          }),
    ),
    spread(
      "attention",
      [whole(5 * 4), whole(6 * 4, 2), whole(6 * 4, 3)],
      2 * 4,
      rows(5, 4, 2),
      (backend) =>
        ([q, k, v], out) =>
          backend.attention({
            ...{
              batch: 1,
              heads: 1,
              queryLength: 5,
              keyLength: 6,
              headSize: 4,
              q: q!,
              k: k!,
              v: v!,
              out,
              dtype,
            },
          }),
    ),
    spread(
      "reduce",
      [whole(3 * 11)],
      11 + 6,
      rows(3, 1, 1),
      (backend) =>
        ([input], output) =>
          backend.reduce({ kind: "sum", shape: [3, 11], axes: [1], input: input!, output, dtype }),
    ),
    spread("unary", [whole(70)], 33, rows(70, 1, 33), (backend) => unaryCall(backend, dtype, "neg", 70)),
    spread("binary", [whole(70), whole(70, 2)], 33, rows(70, 1, 33), (backend) =>
      binaryCall(backend, dtype, "add", 70),
    ),
  ];
}

function determinismLaws(dtype: FloatType): readonly Law[] {
  const promise = { flag: "deterministic", value: true } as const;
  const normal = (count: number, seed: number) => Array.from(draw("normal", count, seed, dtype));
  const twice = (
    operation: OperationName,
    inputs: () => readonly (readonly number[])[],
    outputs: number,
    call: (backend: ComputeBackend) => Call,
  ) =>
    numericsLaw(
      dtype,
      operation,
      "the same call on the same data gives the same bits",
      promise,
      async ({ backend }) => {
        const data = inputs();
        const first = await compute(backend, dtype, data, outputs, call(backend));
        for (let run = 0; run < 2; run++)
          expectSame(operation, await compute(backend, dtype, data, outputs, call(backend)), first);
      },
      true,
    );
  return [
    twice(
      "gemm",
      () => [normal(33 * 2049, 1), normal(2049 * 31, 2)],
      33 * 31,
      (backend) =>
        ([a, b], c) =>
          backend.gemm({ m: 33, n: 31, k: 2049, a: a!, b: b!, c, dtype }),
    ),
    twice(
      "reduce",
      () => [normal(2 ** 17 + 5, 1)],
      1,
      (backend) =>
        ([input], output) =>
          backend.reduce({ kind: "sum", shape: [2 ** 17 + 5], input: input!, output, dtype }),
    ),
    twice(
      "attention",
      () => [normal(64, 1), normal(64 * 515, 2), normal(64 * 515, 3)],
      64,
      (backend) =>
        ([q, k, v], out) =>
          backend.attention({
            ...{
              batch: 1,
              heads: 1,
              queryLength: 1,
              keyLength: 515,
              headSize: 64,
              q: q!,
              k: k!,
              v: v!,
              out,
              dtype,
            },
          }),
    ),
    twice(
      "conv2d",
      () => [normal(32 * 400, 1), normal(16 * 32 * 9, 2)],
      16 * 324,
      (backend) =>
        ([input, filter], output) =>
          backend.conv2d({
            ...{
              inputShape: [1, 32, 20, 20],
              filterShape: [16, 32, 3, 3],
              input: input!,
              filter: filter!,
              output,
              dtype,
            },
          }),
    ),
  ];
}
