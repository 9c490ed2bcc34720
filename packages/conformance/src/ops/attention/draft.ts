import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";

export const draft: Draw = (dice, limits, dtype) => {
  const batch = 1 + dice.below(2);
  const kvHeads = 1 + dice.below(3);
  const heads = kvHeads * (1 + dice.below(2));
  const headSize = dice.pick([1, 8, 16, 32, 40, 64]);
  const area = Math.max(4, limits.multiplications / (2 * batch * heads * headSize));
  const queryLength = dice.size(Math.min(area, 256));
  const keyLength = dice.size(Math.min(area / queryLength, 1024));
  const causal = dice.pick([false, "upper-left", "lower-right"] as const);
  const room = dice.pick([0, 0, 5]);
  const pitch = (keyLength + room) * headSize;
  const kStrides = [kvHeads * pitch, pitch, headSize];
  const kv = batch * kvHeads * pitch;
  const count = batch * heads * queryLength * headSize;
  const window = causal === false ? undefined : dice.pick([undefined, undefined, 1 + dice.below(keyLength)]);
  const maskDtype = dice.pick([undefined, "u8", dtype] as const);
  // Along the heads, or along the heads and queries, one mask may be for all.
  const own = [batch, dice.pick([1, heads]), dice.pick([1, queryLength]), keyLength] as const;
  const strides = [own[1] * own[2] * keyLength, own[2] * keyLength, keyLength, 1];
  const maskStrides = strides.map((stride, axis) => (own[axis] === 1 ? 0 : stride));
  const mask = own.reduce((a, b) => a * b);
  // It is f32, as a walk's other outputs then are, and -Infinity where no key is seen.
  const seesKeys = causal !== "lower-right" && maskDtype === undefined;
  const stores = dtype === "f32" && seesKeys && dice.next() < 0.4;
  return {
    rest: {
      ...{ batch, heads, kvHeads, queryLength, keyLength, headSize, causal, dtype },
      ...(room === 0 ? {} : { kStrides, vStrides: kStrides }),
      ...(window === undefined ? {} : { window }),
      ...(maskDtype === undefined ? {} : { maskDtype, maskStrides }),
    },
    inputs: { q: count, k: kv, v: kv, ...(maskDtype === undefined ? {} : { mask }) },
    ...(maskDtype === "u8" ? { integers: { mask: { low: 0, high: 2 } }, types: { mask: maskDtype } } : {}),
    outputs: { out: count, ...(stores ? { logSumExp: batch * heads * queryLength } : {}) },
    range: ({ q, k, v }) => {
      const scores = stores ? Math.sqrt(headSize) * magnitude(q!) * magnitude(k!) + 8 : 0;
      return within(Math.max(magnitude(v!), scores));
    },
  };
};
