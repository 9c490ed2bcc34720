import { type FunctionBuilder, f32x4, i32, i32x4, type Local, type Value, v128 } from "../../wasm/index.js";
import { rowBytes } from "./layout.js";

/** Scores of keys that a query does not see become -Infinity. */
export function emitMask(
  f: FunctionBuilder,
  block: { readonly scores: Local<"i32">; readonly seen: Local<"i32">; readonly seenFirst: Local<"i32"> },
): void {
  const { scores, seen, seenFirst } = block;
  const key = f.let(i32.maxS(seenFirst, 0));
  f.if(i32.ltS(key, seen), () => {
    const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
    const counts = [i32x4.const(0, 1, 2, 3), i32x4.const(4, 5, 6, 7)].map((lanes) =>
      f.let(i32x4.add(i32x4.splat(seenFirst), lanes)),
    );
    f.forLocal(key, seen, () => {
      const at = f.let(i32.add(scores, i32.mul(key, rowBytes)));
      const number = f.let(i32x4.splat(key));
      for (const [i, count] of counts.entries()) {
        const score = v128.bitselect(v128.load(at, 16 * i), minusInfinity, i32x4.gtS(count, number));
        f.store(at, score, 16 * i);
      }
    });
  });
}

/** Turns scores into probabilities (relative to the new largest score) and updates the statistics. */
export function emitSoftmax(
  f: FunctionBuilder,
  exp: (x: Value<"v128">) => Value<"v128">,
  block: {
    readonly scores: Local<"i32">;
    readonly seen: Local<"i32">;
    readonly statistics: Local<"i32">;
    readonly corrections: Local<"i32">;
  },
): void {
  const { scores, seen, statistics, corrections } = block;
  const end = f.let(i32.add(scores, i32.mul(seen, rowBytes)));
  const halves = [0, 16];
  const before = halves.map((half) => f.let(v128.load(statistics, half)));
  const largest = before.map((value) => f.let(value));
  f.forRange(
    scores,
    end,
    (at) => {
      // A NaN does not count as the largest: it makes its own probability NaN and with it the sum.
      for (const [i, value] of largest.entries()) f.set(value, f32x4.pmax(value, v128.load(at, 16 * i)));
    },
    { step: rowBytes },
  );
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  // If every score so far is -Infinity, 0 replaces the maximum: the probabilities are then 0, not NaN.
  const reference = largest.map((value) => f.let(v128.andnot(value, f32x4.eq(value, minusInfinity))));
  const totals = halves.map((half, i) => {
    const correction = f.let(exp(f.let(f32x4.sub(before[i]!, reference[i]!))));
    f.store(corrections, correction, half);
    f.store(statistics, largest[i]!, half);
    return {
      before: f.let(f32x4.mul(v128.load(statistics, rowBytes + half), correction)),
      sum: f.local("v128"),
    };
  });
  for (const { sum } of totals) f.set(sum, f32x4.const(0));
  f.forRange(
    scores,
    end,
    (at) => {
      for (const [i, { sum }] of totals.entries()) {
        const probability = f.let(exp(f.let(f32x4.sub(v128.load(at, 16 * i), reference[i]!))));
        f.set(sum, f32x4.add(sum, probability));
        f.store(at, probability, 16 * i);
      }
    },
    { step: rowBytes },
  );
  for (const [i, total] of totals.entries())
    f.store(statistics, f32x4.add(total.before, total.sum), rowBytes + halves[i]!);
}
