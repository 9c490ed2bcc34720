import type { FloatType } from "../../dtype.js";
import type { Binder, ReaderOf } from "../reader.js";
import type { ArgumentsOf } from "../table.js";
import { type AttentionMask, reachOfMask } from "./mask.js";

/* What attention and its gradient share: sizes, and which scores there are. */

/** Which keys j a query i sees. */
export type CausalMode =
  /** j <= i: the first query sees the first key. */
  | "upper-left"
  /** j <= i + (keyLength - queryLength): the last query sees the last key, as with a KV cache. */
  | "lower-right";

export const sizesTable = {
  batch: { role: "extent" },
  /** Query heads; a multiple of kvHeads. */
  heads: { role: "extent" },
  kvHeads: { role: "extent", otherwise: "heads" },
  queryLength: { role: "extent" },
  keyLength: { role: "extent" },
  /** Elements per head of every operand but logSumExp and the mask. */
  headSize: { role: "extent" },
} as const;

export const scoresTable = {
  /** Rounded to f32. */
  scale: { role: "factor", otherwise: "1 / sqrt(headSize)" },
  /** False: every query sees every key. True: "upper-left", as in ONNX and PyTorch. */
  causal: { role: "choice", values: [false, true, "upper-left", "lower-right"], default: false },
  /**
   * Only with `causal`: query i sees no more than the last `window` of the keys that it would see, those in
   * (i + s - window, i + s]; s is 0 for upper-left and keyLength - queryLength for lower-right.
   */
  window: { role: "extent", least: 1, otherwise: "no limit", option: true },
  /**
   * f32 or f16: is added to the scores, after `scale`. -Infinity hides a key. Finite numbers below -1e37 may count as -1e37;
   * what a row with NaN or +Infinity gives is open. u8: 0 hides a key, all else changes nothing.
   */
  mask: {
    role: "reads",
    shape: "[batch, heads, queryLength, keyLength], at maskStrides; of maskDtype",
    otherwise: "none",
    option: true,
  },
  /** Elements of the mask per step along [batch, heads, queryLength, keyLength], 0 or more; 0 repeats it along an axis. */
  maskStrides: { role: "strides", otherwise: "contiguous" },
  maskDtype: { role: "elementType", types: ["f32", "f16", "u8"], otherwise: "dtype" },
  /** Of all operands but logSumExp and the mask. */
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

export interface SizeArguments extends ArgumentsOf<typeof sizesTable> {}

export interface ScoreArguments extends ArgumentsOf<typeof scoresTable> {}

export type MaskType = NonNullable<ScoreArguments["maskDtype"]>;

export const maskTypes: readonly MaskType[] = scoresTable.maskDtype.types;

export interface AttentionSizes {
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  readonly scale: number;
  /** See `AttentionProblem`. */
  readonly visible: number;
  readonly oldest: number | undefined;
}

export function readSizes(
  args: SizeArguments & ScoreArguments,
  read: ReaderOf<typeof sizesTable & typeof scoresTable>,
): AttentionSizes {
  const batch = read.extent("batch", args.batch);
  const heads = read.extent("heads", args.heads);
  const kvHeads = read.extent("kvHeads", args.kvHeads, heads);
  if (kvHeads === 0 ? heads !== 0 : heads % kvHeads !== 0)
    read.fail("kvHeads", `is ${kvHeads}; allowed: a divisor of the ${heads} heads`);
  const queryLength = read.extent("queryLength", args.queryLength);
  const keyLength = read.extent("keyLength", args.keyLength);
  const headSize = read.extent("headSize", args.headSize);
  const scale = read.factor("scale", args.scale, headSize === 0 ? 1 : 1 / Math.sqrt(headSize));
  const causal = read.choice("causal", args.causal, scoresTable.causal.values);
  let visible = keyLength;
  if (causal === true || causal === "upper-left") visible = 0;
  else if (causal === "lower-right") visible = keyLength - queryLength;

  let oldest: number | undefined;
  if (args.window !== undefined) {
    const window = read.extent("window", args.window, undefined, 1);
    if (causal === undefined || causal === false)
      read.fail("window", `is ${window} without causal; allowed: windows of causal attention`);
    const first = visible - window + 1;
    // The window of the last query may reach to the first key.
    if (queryLength - 1 + first > 0) oldest = first;
  }
  return { batch, heads, kvHeads, queryLength, keyLength, headSize, scale, visible, oldest };
}

/** Undefined: none is given. */
export function readMask<Memory>(
  { mask, maskStrides, maskDtype }: ScoreArguments,
  read: ReaderOf<typeof scoresTable>,
  binder: Binder<Memory>,
  shape: readonly [number, number, number, number],
  otherwise: FloatType,
): AttentionMask<Memory> | undefined {
  if (mask === undefined && maskStrides === undefined && maskDtype === undefined) return undefined;
  const dtype = read.elementType("maskDtype", maskDtype, { types: maskTypes, default: otherwise });
  const given = read.strides("maskStrides", maskStrides, shape);
  if (mask === undefined)
    read.fail("mask", "is missing; allowed: an operand where maskStrides or maskDtype is given");
  const strideOf = (axis: 0 | 1 | 2 | 3) => {
    const stride = given[axis]!;
    if (stride < 0) read.fail(`maskStrides[${axis}]`, `is ${stride}; allowed: whole numbers of at least 0`);
    return shape[axis] > 1 ? stride : 0;
  };
  const strides = [strideOf(0), strideOf(1), strideOf(2), strideOf(3)] as const;
  return { dtype, region: read.region(binder, "mask", mask, reachOfMask(strides, shape), dtype), strides };
}

/** Counts the pairs of a query and a key that it sees, but for a mask; those of one head. */
export function pairsOf(
  sizes: Pick<AttentionSizes, "queryLength" | "keyLength" | "visible" | "oldest">,
): number {
  const { visible, oldest } = sizes;
  return pairsUpTo(sizes, visible) - (oldest === undefined ? 0 : pairsUpTo(sizes, oldest - 1));
}

/** Counts the pairs (i, j) with 0 <= j <= min(i + visible, keyLength - 1), summed over i in closed form. */
function pairsUpTo(
  { queryLength, keyLength }: Pick<AttentionSizes, "queryLength" | "keyLength">,
  visible: number,
): number {
  const first = Math.min(Math.max(-visible, 0), queryLength);
  const full = Math.min(Math.max(keyLength - 1 - visible, first), queryLength);
  const ramp = ((full - first) * (first + visible + 1 + full + visible)) / 2;
  return ramp + (queryLength - full) * keyLength;
}
