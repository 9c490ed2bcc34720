import {
  type AttentionArguments,
  type BackendError,
  type ComputeBackend,
  type DeviceHandle,
  type ErrorCode,
  type FloatType,
  maskTypes,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, oddPlacement } from "../../arbitraries/shapes.js";
import { floatFormats } from "../../elements.js";
import type { Law, LawContext } from "../../law.js";
import {
  type AttentionCase,
  attentionCase,
  type Causal,
  cases,
  check,
  equalScores,
  operandsOf,
  shapeOf,
} from "./cases.js";
import { expandedMask, type MaskCase } from "./masks.js";

export function maskCase(parts: Partial<MaskCase> = {}): MaskCase {
  return {
    ...{ dtype: "f32", pattern: "some", numbers: "normal", repeated: [false, false, false, false] },
    ...{ isApart: false, seed: 5, ...parts },
  };
}

function masks(parts: Partial<MaskCase> = {}): Arbitrary<MaskCase> {
  return fc
    .record({
      dtype: fc.constantFrom(...maskTypes),
      pattern: fc.constantFrom<MaskCase["pattern"]>("some", "rows", "first", "none"),
      numbers: fc.constantFrom<MaskCase["numbers"]>("normal", "zeros", "large"),
      repeated: fc.constant([false, false, false, false] as const),
      isApart: fc.constant(false),
      seed: dataSeed,
    })
    .map((mask) => ({ ...mask, ...parts }));
}

const repeated = fc.tuple(fc.boolean(), fc.boolean(), fc.boolean(), fc.boolean());

/** With repeated axes, any strides, or both. */
export const spreadMasks: Arbitrary<MaskCase> = fc
  .tuple(masks(), repeated, fc.boolean())
  .map(([mask, along, isApart]): MaskCase => ({ ...mask, repeated: along, isApart }));

/** Tiles, padding on the left longer than tiles, one query over many keys, many of both, keys of one query in turns. */
const largeCases: readonly AttentionCase[] = [
  ...[1, 17, 70].flatMap((queryLength) =>
    maskTypes.map((dtype) =>
      attentionCase({
        ...{ queryLength, keyLength: 520, headSize: 64, kvHeads: 2, group: queryLength > 17 ? 1 : 2 },
        mask: maskCase({ dtype, pattern: "first", repeated: [false, true, queryLength === 1, false] }),
      }),
    ),
  ),
  attentionCase({
    ...{ batch: 2, queryLength: 130, keyLength: 150, headSize: 40, causal: "lower-right", kvHeads: 2 },
    mask: maskCase({ repeated: [true, false, false, false] }),
  }),
  attentionCase({
    ...{ queryLength: 129, keyLength: 131, headSize: 128, causal: true, window: 33, group: 2 },
    mask: maskCase({ dtype: "u8", pattern: "rows" }),
  }),
  attentionCase({
    queryLength: 3,
    keyLength: 1031,
    headSize: 64,
    mask: maskCase({ dtype: "f16", isApart: true }),
  }),
  attentionCase({ queryLength: 33, keyLength: 65, headSize: 260, mask: maskCase({ numbers: "large" }) }),
];

/** Windows shorter and longer than tiles, with fewer and more queries than keys. */
const windowCases: readonly AttentionCase[] = ([true, "lower-right"] as const).flatMap((causal) =>
  [1, 2, 7, 16, 31, 32, 33, 64, 100, 129].flatMap((window) => [
    attentionCase({ queryLength: 140, keyLength: 133, headSize: 16, causal, window }),
    attentionCase({
      queryLength: window % 2 === 0 ? 1 : 5,
      keyLength: 270,
      headSize: 64,
      causal,
      window,
      group: 2,
    }),
  ]),
);

const anyWindow = fc.integer({ min: 1, max: 40 });

const fewer = { runs: 0.5 };

export function maskLaws(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"], wants: object = { mask: true }): Law => ({
    ...{ topic: "attention", name, operation: "attention", dtype, run },
    exempt: (_capabilities, backend) =>
      maskTypes.every((maskDtype) => backend.supports("attention", { dtype, maskDtype, ...wants }))
        ? undefined
        : `attention in ${dtype} has no ${Object.keys(wants).join(" and no ")}`,
  });
  const windowed = { window: true };
  return [
    law("adds a mask to the scores, or hides keys by it", (context) =>
      context.forAll(cases({ mask: masks() }), (value) => check(context, dtype, value)),
    ),
    law("takes masks on larger shapes, and where the first keys are hidden", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value)),
    ),
    law("repeats a mask along any axes, and finds it by its strides", (context) =>
      context.forAll(cases({ mask: spreadMasks, placement: oddPlacement }), (value) =>
        check(context, dtype, value),
      ),
    ),
    law("gives zeros to queries that a mask leaves no key", (context) =>
      context.forAll(
        cases({
          mask: fc.oneof(
            masks({ pattern: "rows" }),
            masks({ pattern: "first", repeated: [true, true, false, false] }),
          ),
        }),
        (value) => check(context, dtype, value),
        fewer,
      ),
    ),
    law("gives the same with a mask of zeros, or one that hides nothing, as without", (context) =>
      context.forAll(
        cases({ mask: masks({ pattern: "none", numbers: "zeros" }) }),
        (value) =>
          check(
            context,
            dtype,
            value,
            operandsOf(value, dtype),
            undefined,
            shapeOf({ ...value, mask: null }),
          ),
        fewer,
      ),
    ),
    law("gives keys no weight at all that are hidden by -Infinity, or by 0", (context) =>
      context.forAll(cases({ mask: keyMasks }), (value) => hiddenKeys(context, dtype, value), fewer),
    ),
    law(
      "sees the keys of a window and no others",
      (context) => context.forEach(windowCases, (value) => check(context, dtype, value)),
      windowed,
    ),
    law(
      "weighs each key of a window once where all scores are the same",
      (context) =>
        context.forAll(
          fc
            .tuple(cases({ causal: someCausal }), anyWindow)
            .map(([value, window]): AttentionCase => ({ ...value, window })),
          (value) => equalScores(context, dtype, value),
        ),
      windowed,
    ),
    law(
      "takes windows, masks and rows with strides together",
      (context) =>
        context.forAll(
          fc
            .tuple(
              cases({
                ...{ causal: someCausal, mask: spreadMasks },
                ...{
                  keyRows: fc.constantFrom("contiguous", "room", "fused"),
                  queryRows: fc.constantFrom("contiguous", "fused"),
                },
              }),
              anyWindow,
            )
            .map(([value, window]): AttentionCase => ({ ...value, window })),
          (value) => check(context, dtype, value),
        ),
      { mask: true, ...windowed },
    ),
    law(
      "refuses masks that do not fit, and windows without causal",
      async ({ backend }) => refusals(backend, dtype),
      { mask: true, ...windowed },
    ),
  ];
}

const someCausal = fc.constantFrom<Causal>(true, "upper-left", "lower-right");

/** Those that hide a key of all queries, or of none. */
export const keyMasks: Arbitrary<MaskCase> = fc.oneof(
  masks({ pattern: "some", numbers: "zeros", repeated: [true, true, true, false] }),
  masks({ pattern: "first", numbers: "zeros", repeated: [true, true, true, false] }),
);

/** Keys and values that nothing should see are larger than all others; times a weight that is not 0, they would show. */
async function hiddenKeys(context: LawContext, dtype: FloatType, value: AttentionCase): Promise<void> {
  const { keyLength, headSize, mask } = value;
  const seen = expandedMask(mask!, [1, 1, 1, keyLength]);
  const nothing = mask!.dtype === "u8" ? 0 : Number.NEGATIVE_INFINITY;
  const operands = operandsOf(value, dtype);
  const isHidden = (i: number) => seen[Math.floor(i / headSize) % keyLength] === nothing;
  await check(context, dtype, value, {
    q: operands.q,
    k: operands.k.map((x, i) => (isHidden(i) ? 64 * Math.sign(x) : x)),
    v: operands.v.map((x, i) => (isHidden(i) ? floatFormats[dtype].largest : x)),
  });
}

function refusals(backend: ComputeBackend, dtype: FloatType): void {
  const handles = Array.from({ length: 5 }, () => backend.alloc(256));
  const [q, k, v, out, mask] = handles as [
    DeviceHandle,
    DeviceHandle,
    DeviceHandle,
    DeviceHandle,
    DeviceHandle,
  ];
  const sizes = { batch: 1, heads: 2, queryLength: 3, keyLength: 4, headSize: 2 };
  const changes: readonly (readonly [Partial<AttentionArguments>, ErrorCode])[] = [
    [{ window: 2 }, "INVALID_ARGUMENT"],
    [{ window: 2, causal: false }, "INVALID_ARGUMENT"],
    [{ window: 0, causal: true }, "INVALID_ARGUMENT"],
    [{ window: 1.5, causal: true }, "INVALID_ARGUMENT"],
    [{ maskStrides: [0, 0, 0, 1] }, "INVALID_ARGUMENT"],
    [{ maskDtype: "u8" }, "INVALID_ARGUMENT"],
    [{ mask, maskStrides: [0, 0, 4] }, "INVALID_ARGUMENT"],
    [{ mask, maskStrides: [0, 0, 4, -1] }, "INVALID_ARGUMENT"],
    [{ mask, maskStrides: [0, 0, 4, 0.5] }, "INVALID_ARGUMENT"],
    [{ mask: out }, "INVALID_ARGUMENT"],
    [{ mask, maskStrides: [0, 1000, 4, 1] }, "OUT_OF_BOUNDS"],
    [
      { mask: { handle: mask, byteOffset: 253 }, maskDtype: "u8", maskStrides: [0, 0, 0, 1] },
      "OUT_OF_BOUNDS",
    ],
  ];
  try {
    for (const [change, wanted] of changes) {
      let code: string | undefined;
      try {
        backend.attention({ ...sizes, q, k, v, out, dtype, ...change } as AttentionArguments);
      } catch (error) {
        code = (error as Partial<BackendError>).code ?? String(error);
      }
      if (code !== wanted)
        throw new Error(
          `${JSON.stringify(change)} ${code === undefined ? "is taken" : `throws ${code}`}, not ${wanted}`,
        );
    }
  } finally {
    for (const handle of handles) backend.free(handle);
  }
}
