import type { FloatType } from "../../dtype.js";
import type { Operand } from "../../handles.js";
import type { Binder, Reader } from "../reader.js";
import { type AttentionMask, reachOfMask } from "./mask.js";

/* What attention and its gradient share: sizes, and which scores there are. */

/** Which keys j a query i sees. */
export type CausalMode =
  /** j <= i: the first query sees the first key. */
  | "upper-left"
  /** j <= i + (keyLength - queryLength): the last query sees the last key, as with a KV cache. */
  | "lower-right";

export type MaskType = "f32" | "f16" | "u8";

export const maskTypes: readonly MaskType[] = ["f32", "f16", "u8"];

/** Arguments of both, with their documentation at `attention`. */
interface ScoreArguments {
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads?: number;
  readonly queryLength: number;
  readonly keyLength: number;
  readonly headSize: number;
  readonly scale?: number;
  readonly causal?: boolean | CausalMode;
  readonly window?: number;
  readonly mask?: Operand;
  readonly maskStrides?: readonly number[];
  readonly maskDtype?: MaskType;
}

/** Of operations that have all these arguments. */
type ScoreReader = Pick<
  Reader<never>,
  "extent" | "factor" | "choice" | "elementType" | "strides" | "region" | "fail"
>;

const causalModes: readonly (boolean | CausalMode)[] = [false, true, "upper-left", "lower-right"];

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

export function readSizes(args: ScoreArguments, read: ScoreReader): AttentionSizes {
  const batch = read.extent("batch", args.batch);
  const heads = read.extent("heads", args.heads);
  const kvHeads = read.extent("kvHeads", args.kvHeads, heads);
  if (kvHeads === 0 ? heads !== 0 : heads % kvHeads !== 0)
    read.fail("kvHeads", `is ${kvHeads}; allowed: a divisor of the ${heads} heads`);
  const queryLength = read.extent("queryLength", args.queryLength);
  const keyLength = read.extent("keyLength", args.keyLength);
  const headSize = read.extent("headSize", args.headSize);
  const scale = read.factor("scale", args.scale, headSize === 0 ? 1 : 1 / Math.sqrt(headSize));
  const causal = read.choice("causal", args.causal, causalModes);
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
  read: ScoreReader,
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
