import type { AttentionGradientProblem, GradientRows } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, remembering, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { placesOf } from "../attention/rows.js";

type Problem = AttentionGradientProblem<ReferenceMemory>;

const law = (name: string, dtype = "f32") => `attentionGradient ${dtype}: ${name}`;
const exactLaw = law("is exact on whole numbers");
const boundLaw = law("stays within the error bound");

/** Defects of attentionGradient. */
export const attentionGradientMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => {
  const made = (
    name: string,
    defect: Mutant["defect"],
    description: string,
    killedBy: readonly string[],
    create: Mutant["create"],
  ): Mutant => ({ name, operation: "attentionGradient", defect, description, killedBy, create });
  const changed = (change: (p: Problem) => Problem) => () => tampered("attentionGradient", change);
  /** Runs it right, and changes the elements of one gradient. */
  const after = (name: GradientRows, change: (value: number, p: Problem, row: number) => number) => () =>
    replaced("attentionGradient", (p, run) => {
      run(p);
      const own = p.rows?.[name];
      const values = load(p[name], p.dtype);
      const store = storeInto(p[name], p.dtype);
      const places = own === undefined ? [...values.keys()] : placesOf(own);
      for (const [i, place] of places.entries())
        store(place, change(values[place]!, p, Math.floor(i / p.headSize)));
    });

  return [
    made(
      "sees one key more in the gradient than causal attention does",
      "edge",
      "j <= i + 1: the probability of the key above the diagonal is computed like all others.",
      [exactLaw, law("aligns the causal mask at the upper left, or at the lower right")],
      changed((p) => (p.visible < p.keyLength ? { ...p, visible: p.visible + 1 } : p)),
    ),
    made(
      "drops one head of a group from the gradients of keys",
      "indexing",
      "A loop over the heads that share a key head ends one too soon.",
      [exactLaw, law("adds up the gradients of heads that share keys")],
      () =>
        replaced("attentionGradient", (p, run) => {
          run(p);
          const group = p.heads / p.kvHeads;
          if (group < 2 || p.rows !== undefined) return;
          const size = p.queryLength * p.headSize;
          const isLast = (i: number) => Math.floor(i / size) % group === group - 1;
          const outGradient = mapped(p.outGradient, p.dtype, (x, i) => (isLast(i) ? 0 : x));
          run({ ...p, outGradient, qGradient: mapped(p.qGradient, p.dtype, (x) => x) });
        }),
    ),
    made(
      "forgets the scale in the gradient of queries",
      "numerics",
      "It is part of the scores only.",
      [exactLaw, boundLaw, law("agrees with central differences of the formula of attention")],
      after("qGradient", (value, p) => (p.scale === 0 ? value : value / p.scale)),
    ),
    made(
      "forgets the scale in the gradient of keys",
      "numerics",
      "Queries are scaled where they are staged for scores, and not where they are staged for this sum.",
      [exactLaw, boundLaw],
      after("kGradient", (value, p) => (p.scale === 0 ? value : value / p.scale)),
    ),
    made(
      "leaves out what normalization does to the gradient",
      "numerics",
      "S = P * dP, without D: right for a sum of e^score.",
      [exactLaw, law("gives queries and keys no gradient where all keys have the same value")],
      changed((p) => ({ ...p, out: mapped(p.out, p.dtype, () => 0) })),
    ),
    made(
      "forgets the mask of a gradient",
      "indexing",
      "logSumExp is taken to have all that the mask does.",
      [
        law("adds a mask to the scores, or hides keys by it"),
        law("is exact on whole numbers with keys hidden by a mask"),
      ],
      changed((p) => ({ ...p, mask: undefined })),
    ),
    made(
      "scales the mask of a gradient",
      "numerics",
      "scale * (q k + mask): right for masks that only hide.",
      [law("adds a mask to the scores, or hides keys by it")],
      changed((p) => {
        const { mask, scale } = p;
        if (mask === undefined || mask.dtype === "u8") return p;
        const scaled = (x: number) => (x === Number.NEGATIVE_INFINITY ? x : x * scale);
        return { ...p, mask: { ...mask, region: mapped(mask.region, mask.dtype, scaled) } };
      }),
    ),
    made(
      "forgets the window of a gradient",
      "edge",
      "Tiles of keys before the window are visited, and nothing in them is hidden.",
      [law("is exact on whole numbers within a window")],
      changed((p) => ({ ...p, oldest: undefined })),
    ),
    made(
      "gives the last key no gradient",
      "edge",
      "Keys are taken by pairs, and an odd one is left.",
      [exactLaw, boundLaw],
      after("vGradient", (value, p, row) =>
        p.keyLength % 2 === 1 && row % p.keyLength === p.keyLength - 1 ? 0 : value,
      ),
    ),
    made(
      "takes logSumExp for a logarithm to base 2",
      "numerics",
      "Kernels compute with powers of two, and those of attention may store what they have.",
      [boundLaw, law("agrees with central differences of the formula of attention")],
      changed((p) => ({ ...p, logSumExp: mapped(p.logSumExp, "f32", (x) => x * Math.LN2) })),
    ),
    made(
      "writes gradients of keys one row after the other, wherever they belong",
      "stride",
      "Only gradients of queries have strides.",
      [law("gives the same bits wherever rows lie")],
      changed((p) => {
        const { kGradient: _, ...rows } = p.rows ?? {};
        return { ...p, rows };
      }),
    ),
    made(
      "rounds the gradient of out to TF32",
      "numerics",
      "Tensor cores for four of the five products, without being asked for.",
      [boundLaw],
      changed((p) =>
        p.dtype === "f32" ? { ...p, outGradient: mapped(p.outGradient, p.dtype, (x) => truncate(x, 10)) } : p,
      ),
    ),
    made(
      "keeps the keys of an earlier gradient",
      "lifecycle",
      "Packed once for each place in memory.",
      ["ordering: attentionGradient: uses its operands as they are at the call"],
      () => {
        const first = remembering();
        return tampered("attentionGradient", (p) => ({ ...p, k: first(p.k), v: first(p.v) }));
      },
    ),
  ];
};
