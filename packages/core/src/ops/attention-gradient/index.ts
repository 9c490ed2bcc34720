import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import type { AttentionMask } from "../attention/mask.js";
import { checkApart, pitchOf, type Rows, reachOf, rowsOf } from "../attention/rows.js";
import {
  pairsOf,
  readMask,
  readSizes,
  type ScoreArguments,
  type SizeArguments,
  scoresTable,
  sizesTable,
} from "../attention/scores.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ReaderOf } from "../reader.js";
import type { ArgumentsOf } from "../table.js";

export { type AttentionGradientSteps, contiguousGradientSteps } from "./steps.js";

const table = {
  q: { role: "reads", shape: "[batch, heads, queryLength, headSize], at qStrides" },
  k: { role: "reads", shape: "[batch, kvHeads, keyLength, headSize], at kStrides" },
  v: { role: "reads", shape: "[batch, kvHeads, keyLength, headSize], at vStrides" },
  /** As `attention` has written it, from the same arguments. */
  out: { role: "reads", shape: "[batch, heads, queryLength, headSize], at outStrides" },
  /** As `attention` has written it: in f32, contiguous, whatever `dtype` is. */
  logSumExp: { role: "reads", shape: "[batch, heads, queryLength]" },
  /** The gradient of `out`. */
  outGradient: { role: "reads", shape: "[batch, heads, queryLength, headSize], at outGradientStrides" },
  qGradient: { role: "writes", shape: "[batch, heads, queryLength, headSize], at qGradientStrides" },
  kGradient: { role: "writes", shape: "[batch, kvHeads, keyLength, headSize], at kGradientStrides" },
  vGradient: { role: "writes", shape: "[batch, kvHeads, keyLength, headSize], at vGradientStrides" },
  /** Elements from each batch, head and row of q to the next: [batch, head, row], 0 or more. */
  qStrides: { role: "strides", otherwise: "contiguous" },
  kStrides: { role: "strides", otherwise: "contiguous" },
  vStrides: { role: "strides", otherwise: "contiguous" },
  outStrides: { role: "strides", otherwise: "contiguous" },
  outGradientStrides: { role: "strides", otherwise: "contiguous" },
  /** Rows of gradients must not overlap. Elements between them are left as they are. */
  qGradientStrides: { role: "strides", otherwise: "contiguous" },
  kGradientStrides: { role: "strides", otherwise: "contiguous" },
  vGradientStrides: { role: "strides", otherwise: "contiguous" },
} as const;

/**
 * The gradients of a sum of outGradient * out by q, k and v, where out = `attention` of the other arguments:
 *
 *     P[i, j] = e^(score[i, j] - logSumExp[i])             S[i, j] = P[i, j] (outGradient[i] . v[j] - D[i])
 *     D[i] = outGradient[i] . out[i]                       qGradient[i] = scale * sum over j of S[i, j] k[j]
 *     vGradient[j] = sum over i of P[i, j] outGradient[i]  kGradient[j] = scale * sum over i of S[i, j] q[i]
 *
 * The sums over i run over the queries of all heads that share a key head, in the same order every time. P and S are 0 where a
 * key is not seen; so gradients of queries that see no key, and of keys that nobody sees, are 0. The mask gets no gradient.
 * Everything is computed in f32, and f16 gradients are rounded once. P is computed again, from q, k and logSumExp (T. Dao,
 * "FlashAttention-2: Faster attention with better parallelism and work partitioning", 2023): extra memory is O(length), and S of as
 * many heads as a backend has a fixed amount of scratch for.
 * A NaN or an infinity in a row of an operand may spread to all gradients of the heads that share its keys.
 */
export interface AttentionGradientArguments
  extends SizeArguments,
    ArgumentsOf<typeof table>,
    ScoreArguments {}

/** The operands that consist of rows of a head. */
export const gradientRows: Readonly<Record<GradientRows, "queries" | "keys">> = {
  ...{ q: "queries", k: "keys", v: "keys", out: "queries", outGradient: "queries" },
  ...{ qGradient: "queries", kGradient: "keys", vGradient: "keys" },
};

export type GradientRows = "q" | "k" | "v" | "out" | "outGradient" | "qGradient" | "kGradient" | "vGradient";

/** All extents are at least 1, but for these: `heads` and `queryLength` may be 0 or `keyLength` may, not both. */
export interface AttentionGradientProblem<Memory> {
  readonly dtype: FloatType;
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  readonly scale: number;
  /** Query i sees the keys i + oldest <= j <= i + visible; see `AttentionProblem`. */
  readonly visible: number;
  /** Undefined: from the first key on. */
  readonly oldest: number | undefined;
  readonly mask: AttentionMask<Memory> | undefined;
  /** Operands whose rows are not contiguous; see `contiguousGradientSteps`. Undefined: none. */
  readonly rows: Readonly<Partial<Record<GradientRows, Rows>>> | undefined;
  /** Each operand from the first to the last element of its rows. */
  readonly q: Region<Memory>;
  readonly k: Region<Memory>;
  readonly v: Region<Memory>;
  readonly out: Region<Memory>;
  readonly logSumExp: Region<Memory>;
  readonly outGradient: Region<Memory>;
  readonly qGradient: Region<Memory>;
  readonly kGradient: Region<Memory>;
  readonly vGradient: Region<Memory>;
}

export const attentionGradient: Operation<
  AttentionGradientArguments,
  AttentionGradientProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "attentionGradient",
  arguments: { ...sizesTable, ...table, ...scoresTable },

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, scoresTable.dtype);
    const sizes = readSizes(args, read);
    const { batch, heads, kvHeads, queryLength, keyLength, headSize } = sizes;
    const extents = { queries: [batch, heads, queryLength], keys: [batch, kvHeads, keyLength] } as const;
    const elements = {
      queries: read.product("q", [...extents.queries, headSize]),
      keys: read.product("k", [...extents.keys, headSize]),
    };
    const apart: Partial<Record<GradientRows, Rows>> = {};
    const region = (name: GradientRows) => {
      const side = gradientRows[name];
      const rows = givenRows(args, read, name, extents[side], headSize);
      if (rows === undefined || elements[side] === 0)
        return read.region(binder, name, args[name], elements[side], dtype);
      if (table[name].role === "writes") checkApart(read, `${name}Strides`, rows, args[`${name}Strides`]);
      if (pitchOf(rows) !== extents[side][2]) apart[name] = rows;
      return read.region(binder, name, args[name], reachOf(rows), dtype);
    };
    const inputs = {
      ...{ q: region("q"), k: region("k"), v: region("v"), out: region("out") },
      logSumExp: read.region(binder, "logSumExp", args.logSumExp, batch * heads * queryLength, "f32"),
      outGradient: region("outGradient"),
    };
    const outputs = {
      ...{ qGradient: region("qGradient"), kGradient: region("kGradient"), vGradient: region("vGradient") },
    };
    const mask = readMask(args, read, binder, [batch, heads, queryLength, keyLength], dtype);
    const others = Object.entries(inputs).map(([argument, one]) => ({ argument, region: one }));
    if (mask !== undefined) others.push({ argument: "mask", region: mask.region });
    for (const [argument, one] of Object.entries(outputs)) {
      const output = { argument, region: one };
      for (const other of others) read.disjoint(output, other);
      others.push(output);
    }
    if (elements.queries + elements.keys === 0) return undefined;
    const rows = Object.keys(apart).length === 0 ? undefined : apart;
    return { dtype, ...sizes, mask, rows, ...inputs, ...outputs };
  },

  flops(problem) {
    // Scores and the gradients of probabilities again, and three sums: five multiply-adds per element, and the exponential.
    return problem.batch * problem.heads * pairsOf(problem) * (10 * problem.headSize + 1);
  },
});

/** Undefined: contiguous. */
function givenRows(
  args: AttentionGradientArguments,
  read: ReaderOf<typeof table>,
  name: GradientRows,
  extents: Rows["extents"],
  size: number,
): Rows | undefined {
  const argument = `${name}Strides` as const;
  const given = args[argument];
  if (given === undefined) return undefined;
  return rowsOf(read, argument, read.strides(argument, given, extents), extents, size);
}
