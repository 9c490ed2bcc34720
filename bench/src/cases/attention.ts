import type { FloatType } from "@backplane/core";
import { type Case, type CaseOptions, epsilon, operationCase, storage } from "./case.js";

export interface AttentionSize {
  readonly dtype?: FloatType;
  readonly batch?: number;
  readonly heads: number;
  /** Default: heads. */
  readonly kvHeads?: number;
  /** Number of queries and keys; `queries` gives the queries if there are fewer. */
  readonly length: number;
  readonly queries?: number;
  readonly headSize: number;
  readonly causal?: boolean;
}

export function attention(size: AttentionSize, options: CaseOptions = {}): Case {
  const { dtype = "f32", batch = 1, heads, kvHeads = heads, length, headSize, causal = false } = size;
  const { queries = length } = size;
  const shape = [
    `batch ${batch}`,
    kvHeads === heads ? `${heads} heads` : `${heads} heads on ${kvHeads}`,
    queries === length ? `length ${length}` : `${queries} query, ${length} keys`,
    `size ${headSize}`,
    ...(causal ? ["causal"] : []),
  ];
  const elements = batch * heads * queries * headSize;
  const stored = batch * kvHeads * length * headSize;
  return operationCase({
    name: shape.join(", "),
    operation: "attention",
    dtype,
    inputs: { q: elements, k: stored, v: stored },
    output: { argument: "out", elements },
    args: ({ q, k, v, out }) => ({
      ...{ batch, heads, kvHeads, queryLength: queries, keyLength: length, headSize, causal, dtype },
      ...{ q: q!, k: k!, v: v!, out: out! },
    }),
    expected({ q, k, v }, index) {
      const column = index % headSize;
      const row = Math.floor(index / headSize) % queries;
      const head = Math.floor(index / (headSize * queries));
      const query = (head * queries + row) * headSize;
      const image = Math.floor(head / heads);
      const keys = (image * kvHeads + Math.floor((head % heads) / (heads / kvHeads))) * length * headSize;
      const scores: number[] = [];
      let largest = Number.NEGATIVE_INFINITY;
      for (let j = 0; j < (causal ? row + 1 : length); j++) {
        let score = 0;
        for (let d = 0; d < headSize; d++) score += q!.at(query + d) * k!.at(keys + j * headSize + d);
        scores.push(score / Math.sqrt(headSize));
        largest = Math.max(largest, scores[j]!);
      }
      const weights = scores.map((score) => Math.exp(score - largest));
      const total = weights.reduce((a, b) => a + b, 0);
      let value = 0;
      let magnitude = 0;
      weights.forEach((weight, j) => {
        const term = (weight / total) * v!.at(keys + j * headSize + column);
        value += term;
        magnitude += Math.abs(term);
      });
      // Scores are a few units large at most: the exponential adds a few eps to the bound of the two sums.
      const sums = (2 * length + 2 * headSize + 32) * epsilon.f32 * magnitude;
      return { value, tolerance: sums + storage(dtype, value) };
    },
    problem: { batch, heads, kvHeads, queries, keys: length, headSize, causal },
    ...options,
  });
}
