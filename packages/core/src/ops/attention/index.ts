import { dtypeBytes, type FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { defineOperation, Fill, type Operation } from "../operation.js";
import type { ReaderOf } from "../reader.js";
import type { ArgumentsOf } from "../table.js";
import type { AttentionMask } from "./mask.js";
import { checkApart, pitchOf, type Rows, reachOf, rowsOf } from "./rows.js";
import {
  pairsOf,
  readMask,
  readSizes,
  type ScoreArguments,
  type SizeArguments,
  scoresTable,
  sizesTable,
} from "./scores.js";
import { oldestSkipped } from "./window.js";

export { type AttentionMask, type MaskAxes, reachOfMask } from "./mask.js";
export type { Rows } from "./rows.js";
export { type CausalMode, type MaskType, maskTypes } from "./scores.js";
export { type AttentionSteps, contiguousSteps } from "./steps.js";

const table = {
  q: { role: "reads", shape: "[batch, heads, queryLength, headSize], at qStrides" },
  k: { role: "reads", shape: "[batch, kvHeads, keyLength, headSize], at kStrides" },
  v: { role: "reads", shape: "[batch, kvHeads, keyLength, headSize], at vStrides" },
  out: { role: "writes", shape: "[batch, heads, queryLength, headSize], at outStrides" },
  /**
   * Of each query, the natural logarithm of the sum of e^score over the keys that it sees, scores with `scale` and `mask`;
   * -Infinity if it sees no key. In f32, contiguous, whatever `dtype` is. For `attentionGradient`.
   */
  logSumExp: {
    role: "writes",
    shape: "[batch, heads, queryLength]",
    otherwise: "not stored",
    option: true,
  },
  /**
   * Elements from each batch, head and row of q to the next: [batch, head, row], 0 or more. A cache of keys with room for
   * more has [kvHeads * room * headSize, room * headSize, headSize]; rows of q, k and v side by side have the same.
   */
  qStrides: { role: "strides", otherwise: "contiguous" },
  kStrides: { role: "strides", otherwise: "contiguous" },
  vStrides: { role: "strides", otherwise: "contiguous" },
  /** Rows must not overlap. Elements between them are left as they are. */
  outStrides: { role: "strides", otherwise: "contiguous" },
} as const;

/**
 * out[b, h, i] = sum over j of P[i, j] * v[b, g, j], P = softmax over j of scale * q[b, h, i] . k[b, g, j] + mask[b, h, i, j]
 *
 * The sums run over the keys j that `causal`, `window` and `mask` let query i see; without them, all. g =
 * floor(h / (heads / kvHeads)), which is grouped-query attention if kvHeads < heads. A query that sees no key yields zeros.
 * The k and v of hidden keys, if finite, make no difference; a NaN or an infinity there may spread to the rows of the same
 * head. Extra memory is O(length), never O(length^2). The elements of a row follow one another.
 */
export interface AttentionArguments extends SizeArguments, ArgumentsOf<typeof table>, ScoreArguments {}

/** Every extent is at least 1. */
export interface AttentionProblem<Memory> {
  readonly dtype: FloatType;
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  readonly scale: number;
  /**
   * Query i sees the keys j <= i + visible. The value is `keyLength` (every key) without a mask, 0 for
   * upper-left, and keyLength - queryLength (possibly negative) for lower-right.
   */
  readonly visible: number;
  /**
   * Query i sees the keys j >= i + oldest, which is above -queryLength + 1. Keys before those of the first query are left out
   * where keys and values lie at `keyPitch`: `oldest` is at most 0 then. Undefined: from the first key on.
   */
  readonly oldest: number | undefined;
  readonly mask: AttentionMask<Memory> | undefined;
  /** Rows from one key head to the next, in k and v: at least keyLength. */
  readonly keyPitch: number;
  /**
   * Operands whose rows lie otherwise; see `contiguousSteps`. Undefined: q and out are contiguous, k and v have `keyPitch`.
   */
  readonly rows: Readonly<Partial<Record<"q" | "k" | "v" | "out", Rows>>> | undefined;
  /** Each operand from the first to the last element of its rows. */
  readonly q: Region<Memory>;
  readonly k: Region<Memory>;
  readonly v: Region<Memory>;
  readonly out: Region<Memory>;
  /** In f32, contiguous. */
  readonly logSumExp: Region<Memory> | undefined;
}

export const attention: Operation<
  AttentionArguments,
  AttentionProblem<unknown>
> = /* @__PURE__ */ defineOperation({
  name: "attention",
  arguments: { ...sizesTable, ...table, ...scoresTable },

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, scoresTable.dtype);
    const sizes = readSizes(args, read);
    const { batch, heads, kvHeads, queryLength, keyLength, headSize, scale, visible, oldest } = sizes;
    const queries = read.product("q", [batch, heads, queryLength, headSize]);
    const keys = read.product("k", [batch, kvHeads, keyLength, headSize]);
    const given = givenRows(args, read, [batch, heads, queryLength], [batch, kvHeads, keyLength], headSize);
    const q = read.region(binder, "q", args.q, given === undefined ? queries : reachOf(given.q), dtype);
    const k = read.region(binder, "k", args.k, given === undefined ? keys : reachOf(given.k), dtype);
    const v = read.region(binder, "v", args.v, given === undefined ? keys : reachOf(given.v), dtype);
    const out = read.region(
      binder,
      "out",
      args.out,
      given === undefined ? queries : reachOf(given.out),
      dtype,
    );
    for (const [argument, region] of Object.entries({ q, k, v }))
      read.disjoint({ argument: "out", region: out }, { argument, region });
    const mask = readMask(args, read, binder, [batch, heads, queryLength, keyLength], dtype);
    if (mask !== undefined)
      read.disjoint({ argument: "out", region: out }, { argument: "mask", region: mask.region });
    const logSumExp = read.optionalRegion(
      ...([binder, "logSumExp", args.logSumExp, batch * heads * queryLength, "f32"] as const),
    );
    if (logSumExp !== undefined) {
      if (headSize === 0 && logSumExp.byteLength > 0)
        read.fail("headSize", "is 0, and logSumExp is given; allowed: at least 1 with logSumExp");
      for (const [argument, region] of Object.entries({ q, k, v, out, mask: mask?.region }))
        if (region !== undefined)
          read.disjoint({ argument: "logSumExp", region: logSumExp }, { argument, region });
    }
    if (queries === 0) return undefined;
    const isFilled = logSumExp === undefined && (given === undefined || pitchOf(given.out) === queryLength);
    if (keyLength === 0 && isFilled) return new Fill(out, 0, dtype);
    const problem = {
      dtype,
      batch,
      heads,
      kvHeads,
      queryLength,
      keyLength,
      headSize,
      scale,
      visible,
      oldest,
      mask,
      keyPitch: keyLength,
      rows: undefined,
      q,
      k,
      v,
      out,
      logSumExp,
    };
    if (keyLength === 0) return unseen(problem, given);
    return oldestSkipped(given === undefined ? problem : placed(problem, given));
  },

  flops(problem) {
    const pairs = pairsOf(problem);
    // Two multiply-adds per element of the head, and the exponential.
    return problem.batch * problem.heads * pairs * (4 * problem.headSize + 1);
  },
});

type AllRows = Readonly<Record<"q" | "k" | "v" | "out", Rows>>;

/** Undefined: all operands are contiguous. */
function givenRows(
  { qStrides, kStrides, vStrides, outStrides }: AttentionArguments,
  read: ReaderOf<typeof table>,
  queries: Rows["extents"],
  keys: Rows["extents"],
  size: number,
): AllRows | undefined {
  if (qStrides === undefined && kStrides === undefined && vStrides === undefined && outStrides === undefined)
    return undefined;
  const rows = (
    argument: "qStrides" | "kStrides" | "vStrides" | "outStrides",
    given: readonly number[] | undefined,
    extents: Rows["extents"],
  ): Rows =>
    rowsOf(
      read,
      argument,
      given === undefined ? given : read.strides(argument, given, extents),
      extents,
      size,
    );
  const out = rows("outStrides", outStrides, queries);
  checkApart(read, "outStrides", out, outStrides);
  return {
    q: rows("qStrides", qStrides, queries),
    k: rows("kStrides", kStrides, keys),
    v: rows("vStrides", vStrides, keys),
    out,
  };
}

/** The problem with operands whose rows lie as given. */
function placed<Memory>(problem: AttentionProblem<Memory>, given: AllRows): AttentionProblem<Memory> {
  const { keyLength } = problem;
  const apart = queriesApart(problem, given);
  const pitch = pitchOf(given.k);
  const isShared = pitch !== undefined && pitch === pitchOf(given.v);
  if (!isShared)
    for (const name of ["k", "v"] as const) if (pitchOf(given[name]) !== keyLength) apart[name] = given[name];
  const rows = Object.keys(apart).length === 0 ? undefined : apart;
  return { ...problem, keyPitch: isShared ? pitch : keyLength, rows };
}

/** A problem without keys, as if there were one, which no query sees. */
function unseen<Memory>(
  problem: AttentionProblem<Memory>,
  given: AllRows | undefined,
): AttentionProblem<Memory> {
  const { dtype, batch, kvHeads, queryLength, headSize, q } = problem;
  const one: Rows = { extents: [batch, kvHeads, 1], size: headSize, strides: [0, 0, 0] };
  const region = { ...q, byteLength: headSize * dtypeBytes[dtype] };
  const rows = { ...(given && queriesApart(problem, given)), k: one, v: one };
  const none = { visible: -queryLength, oldest: undefined, mask: undefined };
  return { ...problem, keyLength: 1, keyPitch: 1, ...none, rows, k: region, v: region };
}

function queriesApart(
  { queryLength }: AttentionProblem<unknown>,
  given: AllRows,
): Partial<Record<keyof AllRows, Rows>> {
  const apart: Partial<Record<keyof AllRows, Rows>> = {};
  for (const name of ["q", "out"] as const)
    if (pitchOf(given[name]) !== queryLength) apart[name] = given[name];
  return apart;
}
