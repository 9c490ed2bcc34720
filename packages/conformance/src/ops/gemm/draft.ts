import type { Draw } from "../../kit/draft.js";
import { magnitude, within } from "../../kit/range.js";

export function draftOf(isBatched: boolean): Draw {
  return (dice, limits, dtype) => {
    const batch = isBatched ? 1 + dice.below(6) : 1;
    const cost = limits.multiplications / batch;
    const m = dice.size(Math.min(cost, 512));
    const n = dice.size(Math.min(cost / m, 512));
    const k = dice.size(Math.min(cost / m / n, 2048));
    const [transA, transB] = [dice.next() < 0.3, dice.next() < 0.3];
    const [alpha, beta] = [dice.pick([1, -1, Math.fround(1 / k)]), dice.pick([0, 0, 1, -0.5])];
    const pad = dice.pick([0, 0, 1, 4]);
    const rest = { m, n, k, alpha, beta, transA, transB, ldc: n + pad, dtype };
    return {
      rest: isBatched ? { ...rest, batch } : rest,
      inputs: { a: batch * m * k, b: batch * k * n },
      outputs: { c: batch * m * (n + pad) },
      keepsOutputs: beta !== 0 || pad !== 0,
      range: ({ a, b, c }) => within(Math.abs(alpha) * k * magnitude(a!) * magnitude(b!) + magnitude(c!)),
    };
  };
}
