import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";

export const draft: Draw = (dice, limits, dtype) => {
  const batch = 1 + dice.below(2);
  const kvHeads = 1 + dice.below(3);
  const heads = kvHeads * (1 + dice.below(2));
  const headSize = dice.pick([1, 8, 16, 32, 40, 64]);
  const area = Math.max(4, limits.multiplications / (7 * batch * heads * headSize));
  const queryLength = dice.size(Math.min(area, 256));
  const keyLength = dice.size(Math.min(area / queryLength, 512));
  const causal = dice.pick([false, "upper-left", "lower-right"] as const);
  const room = dice.pick([0, 0, 5]);
  const pitch = (keyLength + room) * headSize;
  const kStrides = [kvHeads * pitch, pitch, headSize];
  const window = causal === false ? undefined : dice.pick([undefined, undefined, 1 + dice.below(keyLength)]);
  const mask = dice.pick([false, true]);
  const [rows, count] = [batch * heads * queryLength, batch * heads * queryLength * headSize];
  const [kv, keys] = [batch * kvHeads * pitch, batch * kvHeads * keyLength * headSize];
  return {
    rest: {
      ...{ batch, heads, kvHeads, queryLength, keyLength, headSize, causal, dtype, scale: 2 ** -6 },
      ...(room === 0 ? {} : { kStrides, vStrides: kStrides }),
      ...(window === undefined ? {} : { window }),
      ...(mask ? { maskDtype: "u8", maskStrides: [0, 0, keyLength, 1] } : {}),
    },
    inputs: {
      ...{ q: count, k: kv, v: kv, out: count, logSumExp: rows, outGradient: count },
      ...(mask ? { mask: queryLength * keyLength } : {}),
    },
    integers: mask ? { mask: { low: 0, high: 2 } } : {},
    inputTypes: { logSumExp: "f32" },
    types: mask ? { mask: "u8" } : {},
    outputs: { qGradient: count, kGradient: keys, vGradient: keys },
    range: ({ q, k, v, out, logSumExp, outGradient }) => {
      // What comes from elsewhere need not be a logarithm of a sum: probabilities are then not below 1.
      const score = (headSize * magnitude(q!) * magnitude(k!)) / 64 + magnitude(logSumExp!);
      const change = headSize * magnitude(outGradient!) * (magnitude(v!) + magnitude(out!));
      const most = Math.max(change * Math.max(magnitude(q!), magnitude(k!)), magnitude(outGradient!));
      return within(Math.exp(Math.min(score, 80)) * most * Math.max(heads * queryLength, keyLength));
    },
  };
};
