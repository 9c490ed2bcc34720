import type { AttentionArguments } from "@backplane/core";
import type { Call } from "../checks.js";
import { numbers, type Plan } from "../plan.js";

export function planAttention(call: Call, args: AttentionArguments): Plan | undefined {
  const batch = call.whole("batch", args.batch);
  const heads = call.whole("heads", args.heads);
  const kvHeads = call.whole("kvHeads", args.kvHeads ?? heads);
  if (heads > 0 && (kvHeads === 0 || heads % kvHeads !== 0))
    call.refuse("kvHeads", kvHeads, `divisors of the ${heads} heads`);
  const queryLength = call.whole("queryLength", args.queryLength);
  const keyLength = call.whole("keyLength", args.keyLength);
  const size = call.whole("headSize", args.headSize);
  const scale = call.factor("scale", args.scale ?? (size === 0 ? 1 : 1 / Math.sqrt(size)));
  const { causal = false } = args;
  if (typeof causal !== "boolean") call.choice("causal", causal, ["upper-left", "lower-right"]);
  const shift = causal === "lower-right" ? keyLength - queryLength : 0;

  const queries = call.count("q", [batch, heads, queryLength, size]);
  const keys = call.count("k", [batch, kvHeads, keyLength, size]);
  const [q, k] = [call.place("q", args.q, queries, 4), call.place("k", args.k, keys, 4)];
  const [v, out] = [call.place("v", args.v, keys, 4), call.place("out", args.out, queries, 4)];
  for (const input of [["q", q] as const, ["k", k] as const, ["v", v] as const])
    call.apart(["out", out], input, "never");
  if (queries === 0) return undefined;

  return {
    output: out,
    inputs: [q, k, v],
    compute(bytes, [bytesQ, bytesK, bytesV]) {
      const [arrayQ, arrayK, arrayV] = [numbers(bytesQ!, q), numbers(bytesK!, k), numbers(bytesV!, v)];
      const results = numbers(bytes, out);
      const weights = new Float64Array(keyLength);
      const sums = new Float64Array(size);
      for (let head = 0; head < batch * heads; head++) {
        const image = Math.floor(head / heads);
        const group = Math.floor((head % heads) / (heads / kvHeads));
        const firstKey = (image * kvHeads + group) * keyLength;
        for (let i = 0; i < queryLength; i++) {
          const start = (head * queryLength + i) * size;
          // The keys that this query sees come first.
          const seen = causal === false ? keyLength : Math.min(Math.max(i + shift + 1, 0), keyLength);
          let largest = Number.NEGATIVE_INFINITY;
          for (let j = 0; j < seen; j++) {
            let score = 0;
            for (let d = 0; d < size; d++) score += arrayQ[start + d]! * arrayK[(firstKey + j) * size + d]!;
            weights[j] = scale * score;
            largest = Math.max(largest, weights[j]!);
          }
          sums.fill(0);
          let total = 0;
          for (let j = 0; j < seen; j++) {
            const weight = Math.exp(weights[j]! - largest);
            total += weight;
            for (let d = 0; d < size; d++) sums[d]! += weight * arrayV[(firstKey + j) * size + d]!;
          }
          for (let d = 0; d < size; d++) results[start + d] = seen === 0 ? 0 : sums[d]! / total;
        }
      }
    },
  };
}
