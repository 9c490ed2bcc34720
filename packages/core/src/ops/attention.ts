import type { DType } from "../dtype.js";
import type { Operand } from "../handles.js";
import { checkNames } from "../names.js";
import type { Region } from "../region.js";
import { Checks, type Operation } from "./operation.js";

/** Which keys j a query i may see. */
export type CausalMode =
  /** j <= i: the first query sees the first key. */
  | "upper-left"
  /** j <= i + (keyLength - queryLength): the last query sees the last key, as with a KV cache. */
  | "lower-right";

/**
 * out[b, h, i] = sum over j of P[i, j] * v[b, g, j], P = softmax over j of scale * q[b, h, i] . k[b, g, j]
 *
 * over the keys that `causal` lets i see, with g = floor(h / (heads / kvHeads)): grouped-query
 * attention where kvHeads < heads. A query that sees no key gives zeros. Extra memory is O(length),
 * never O(length^2). All operands are contiguous.
 */
export interface AttentionArguments {
  readonly batch: number;
  /** Query heads; a multiple of kvHeads. */
  readonly heads: number;
  /** Default: heads. */
  readonly kvHeads?: number;
  readonly queryLength: number;
  readonly keyLength: number;
  /** Elements per head of q, k, v and out. */
  readonly headSize: number;
  /** [batch, heads, queryLength, headSize] */
  readonly q: Operand;
  /** [batch, kvHeads, keyLength, headSize] */
  readonly k: Operand;
  /** [batch, kvHeads, keyLength, headSize] */
  readonly v: Operand;
  /** [batch, heads, queryLength, headSize] */
  readonly out: Operand;
  /** Rounded to f32. Default 1 / sqrt(headSize). */
  readonly scale?: number;
  /** Default false: every query sees every key. True means "upper-left", as in ONNX and PyTorch. */
  readonly causal?: boolean | CausalMode;
  readonly dtype?: DType;
}

/** Every extent is at least 1. */
export interface AttentionProblem<Memory> {
  readonly dtype: DType;
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  readonly scale: number;
  /**
   * Query i sees the keys j <= i + visible. `keyLength` (every key) without a mask, 0 for
   * upper-left, keyLength - queryLength (possibly negative) for lower-right.
   */
  readonly visible: number;
  readonly q: Region<Memory>;
  readonly k: Region<Memory>;
  readonly v: Region<Memory>;
  readonly out: Region<Memory>;
}

const attentionNames: readonly (keyof AttentionArguments)[] = [
  ...(["batch", "heads", "kvHeads", "queryLength", "keyLength", "headSize"] as const),
  ...(["q", "k", "v", "out", "scale", "causal", "dtype"] as const),
];

export const attention: Operation<"attention"> = {
  name: "attention",
  names: attentionNames,
  operands: ["q", "k", "v", "out"],

  resolve(args, binder) {
    // Counted first, which costs next to nothing: see checkNames.
    let names = 0;
    if (args.batch !== undefined) names++;
    if (args.heads !== undefined) names++;
    if (args.queryLength !== undefined) names++;
    if (args.keyLength !== undefined) names++;
    if (args.headSize !== undefined) names++;
    if (args.q !== undefined) names++;
    if (args.k !== undefined) names++;
    if (args.v !== undefined) names++;
    if (args.out !== undefined) names++;
    if (args.kvHeads !== undefined) names++;
    if (args.scale !== undefined) names++;
    if (args.causal !== undefined) names++;
    if (args.dtype !== undefined) names++;
    for (const _ in args) names--;
    if (names !== 0) checkNames("attention", args, attentionNames);
    const checks = new Checks("attention");
    const dtype = checks.dtype(args.dtype);
    const batch = checks.count("batch", args.batch);
    const heads = checks.count("heads", args.heads);
    const kvHeads = checks.count("kvHeads", args.kvHeads ?? heads);
    if (kvHeads === 0 ? heads !== 0 : heads % kvHeads !== 0)
      checks.fail("kvHeads", `is ${kvHeads}; allowed: a divisor of the ${heads} heads`);
    const queryLength = checks.count("queryLength", args.queryLength);
    const keyLength = checks.count("keyLength", args.keyLength);
    const headSize = checks.count("headSize", args.headSize);
    const scale = checks.float32("scale", args.scale ?? (headSize === 0 ? 1 : 1 / Math.sqrt(headSize)));
    const causal = args.causal ?? false;
    const mode = typeof causal === "boolean" ? undefined : causal;
    if (mode !== undefined) checks.oneOf("causal", mode, ["upper-left", "lower-right"]);
    let visible = keyLength;
    if (causal === true || mode === "upper-left") visible = 0;
    else if (mode === "lower-right") visible = keyLength - queryLength;

    const queries = checks.product("q", [batch, heads, queryLength, headSize]);
    const keys = checks.product("k", [batch, kvHeads, keyLength, headSize]);
    const q = binder.region("q", args.q, queries, dtype);
    const k = binder.region("k", args.k, keys, dtype);
    const v = binder.region("v", args.v, keys, dtype);
    const out = binder.region("out", args.out, queries, dtype);
    for (const [argument, region] of Object.entries({ q, k, v }))
      checks.disjoint({ argument: "out", region: out }, { argument, region });
    if (queries === 0) return undefined;
    if (keyLength === 0) {
      binder.fill(out, 0, dtype);
      return undefined;
    }
    return {
      dtype,
      batch,
      heads,
      kvHeads,
      queryLength,
      keyLength,
      headSize,
      scale,
      visible,
      q,
      k,
      v,
      out,
    };
  },

  flops(problem) {
    const { queryLength, keyLength, visible } = problem;
    // Pairs (i, j) with 0 <= j <= min(i + visible, keyLength - 1), summed over i in closed form.
    const first = Math.min(Math.max(-visible, 0), queryLength);
    const full = Math.min(Math.max(keyLength - 1 - visible, first), queryLength);
    const ramp = ((full - first) * (first + visible + 1 + full + visible)) / 2;
    const pairs = ramp + (queryLength - full) * keyLength;
    // Two multiply-adds per element of the head, and the exponential.
    return problem.batch * problem.heads * pairs * (4 * problem.headSize + 1);
  },

  bytes(problem) {
    return 2 * problem.q.byteLength + problem.k.byteLength + problem.v.byteLength;
  },
};
