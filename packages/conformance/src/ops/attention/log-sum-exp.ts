import type { AttentionProblem, FloatType } from "@backplane/core";
import fc from "fast-check";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped } from "../../kit/regions.js";
import type { Law } from "../../law.js";
import type { Builder, Mutant } from "../../mutant.js";
import { type AttentionCase, attentionCase, type Causal, cases, check, work, workOf } from "./cases.js";
import { maskCase, spreadMasks } from "./mask-laws.js";

const stored = { logSumExp: true };

/** Tiles, one query over keys that several workgroups share, and long heads. */
const largeCases: readonly AttentionCase[] = [
  attentionCase({ ...stored, queryLength: 200, keyLength: 200, headSize: 64, causal: true, kvHeads: 2 }),
  attentionCase({ ...stored, queryLength: 1, keyLength: 1400, headSize: 64, kvHeads: 2, group: 4 }),
  attentionCase({
    ...stored,
    batch: 2,
    queryLength: 3,
    keyLength: 1031,
    headSize: 30,
    causal: "lower-right",
  }),
  attentionCase({ ...stored, queryLength: 33, keyLength: 65, headSize: 260, group: 2 }),
  attentionCase({
    ...stored,
    queryLength: 70,
    keyLength: 66,
    headSize: 8,
    queryRows: "fused",
    keyRows: "room",
  }),
];

export function logSumExpLaws(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"], wants: object = {}): Law => ({
    ...{ topic: "attention", name, operation: "attention", dtype, run },
    exempt: (_capabilities, backend) =>
      backend.supports("attention", { dtype, ...stored, ...wants })
        ? undefined
        : `attention in ${dtype} does not store the logarithms of its sums${wants === hidden ? "" : " with masks"}`,
  });
  return [
    law("stores the logarithm of the sum of e^score of each query", (context) =>
      context.forAll(cases(stored), (value) => check(context, dtype, value)),
    ),
    law("stores it on larger shapes", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value)),
    ),
    law("stores the logarithm of the number of keys where all scores are 0", (context) =>
      context.forAll(longCases, (value) => check(context, dtype, { ...value, scale: 0 }), { runs: 0.5 }),
    ),
    law("stores -Infinity of queries that see no key", (context) =>
      context.forAll(
        cases({ ...stored, causal: fc.constant<Causal>("lower-right"), placement: oddPlacement }),
        async (value) => {
          const queryLength = value.queryLength + value.keyLength;
          await check(context, dtype, { ...value, queryLength, keyLength: Math.min(value.keyLength, 9) });
          await check(context, dtype, { ...value, keyLength: 0 });
        },
        { runs: 0.5 },
      ),
    ),
    law(
      "stores it under masks and windows",
      (context) =>
        context.forAll(
          fc.tuple(cases({ ...stored, mask: spreadMasks }), fc.constantFrom(null, 1, 5, 40)).map(
            ([value, window]): AttentionCase => ({
              ...value,
              window: value.causal === false ? null : window,
            }),
          ),
          (value) => check(context, dtype, value),
          {
            examples: [
              attentionCase({
                ...{ ...stored, queryLength: 9, keyLength: 40, headSize: 16, causal: true },
                mask: maskCase({ pattern: "rows" }),
              }),
            ],
          },
        ),
      hidden,
    ),
  ];
}

/** Calls with masks and windows. */
const hidden = { mask: true, window: true };

/** As when text is generated. */
const longCases = fc
  .tuple(cases(stored), fc.integer({ min: 1, max: 6 }), fc.integer({ min: 130, max: 900 }))
  .map(([value, queryLength, keyLength]): AttentionCase => ({ ...value, queryLength, keyLength }))
  .filter((value) => workOf(value) <= work);

type Problem = AttentionProblem<ReferenceMemory>;

/** Defects of `logSumExp`. */
export const logSumExpMutants = ({ replaced }: Builder): readonly Mutant[] => {
  const changed = (change: (value: number, p: Problem, index: number) => number) => () =>
    replaced("attention", (p, run) => {
      run(p);
      if (p.logSumExp === undefined) return;
      const store = storeInto(p.logSumExp, "f32");
      for (const [i, value] of load(p.logSumExp, "f32").entries()) store(i, change(value, p, i));
    });
  return [
    {
      name: "stores the logarithm of a sum without its scale",
      operation: "attention",
      defect: "numerics",
      description: "The scale is part of the queries elsewhere, and is left out here.",
      killedBy: ["attention f32: stores the logarithm of the sum of e^score of each query"],
      create: () =>
        replaced("attention", (p, run) => {
          run(p);
          if (p.logSumExp !== undefined) run({ ...p, scale: 1, out: mapped(p.out, p.dtype, (x) => x) });
        }),
    },
    {
      name: "stores logarithms to base 2",
      operation: "attention",
      defect: "numerics",
      description: "Kernels compute with powers of two.",
      killedBy: [
        "attention f32: stores the logarithm of the sum of e^score of each query",
        "attention f32: stores the logarithm of the number of keys where all scores are 0",
      ],
      create: changed((value) => value * Math.LOG2E),
    },
    {
      name: "stores 0 for queries that see no key",
      operation: "attention",
      defect: "edge",
      description: "The logarithm of a sum of 0 is replaced, as its inverse is.",
      killedBy: ["attention f32: stores -Infinity of queries that see no key"],
      create: changed((value) => (value === Number.NEGATIVE_INFINITY ? 0 : value)),
    },
    {
      name: "stores the largest score in place of the logarithm of the sum",
      operation: "attention",
      defect: "numerics",
      description: "Half of what the running softmax keeps: right for one key.",
      killedBy: ["attention f32: stores the logarithm of the number of keys where all scores are 0"],
      create: changed((value, p) => (p.scale === 0 && p.mask === undefined ? Math.min(value, 0) : value)),
    },
    {
      name: "stores the logarithms of the first head for all heads of a group",
      operation: "attention",
      defect: "indexing",
      description: "Rows that share a key head are numbered by their query alone.",
      killedBy: ["attention f32: stores the logarithm of the sum of e^score of each query"],
      create: () =>
        replaced("attention", (p, run) => {
          run(p);
          if (p.logSumExp === undefined) return;
          const values = load(p.logSumExp, "f32");
          const store = storeInto(p.logSumExp, "f32");
          const group = p.heads / p.kvHeads;
          for (const i of values.keys()) {
            const head = Math.floor(i / p.queryLength);
            store(i, values[(head - (head % group)) * p.queryLength + (i % p.queryLength)]!);
          }
        }),
    },
  ];
};
