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
  return {
    rest: {
      ...{ batch, heads, kvHeads, queryLength, keyLength, headSize, causal, dtype },
      ...(room === 0 ? {} : { kStrides, vStrides: kStrides }),
    },
    inputs: { q: count, k: kv, v: kv },
    outputs: { out: count },
    range: ({ v }) => within(magnitude(v!)),
  };
};
