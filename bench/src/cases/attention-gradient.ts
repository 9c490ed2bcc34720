import { dtypeBytes, type FloatType } from "@backplane/core";
import { type Case, type CaseOptions, epsilon, operationCase, storage } from "./case.js";

export interface AttentionGradientSize {
  readonly dtype?: FloatType;
  readonly batch?: number;
  readonly heads: number;
  /** Queries, and keys. */
  readonly length: number;
  readonly headSize: number;
}

/**
 * Causal, with the gradients of q, k and v one after the other in one allocation. logSumExp is 0, so that a probability is
 * e^score: that takes as long, and an element is found without all the others.
 */
export function attentionGradient(size: AttentionGradientSize, options: CaseOptions = {}): Case {
  const { dtype = "f32", batch = 1, heads, length, headSize } = size;
  const rows = batch * heads * length;
  const elements = rows * headSize;
  const shape = {
    batch,
    heads,
    queryLength: length,
    keyLength: length,
    headSize,
    causal: true,
    dtype,
  } as const;
  const scale = Math.fround(1 / Math.sqrt(headSize));
  return operationCase({
    name: `batch ${batch}, ${heads} heads, length ${length}, size ${headSize}, causal`,
    operation: "attentionGradient",
    dtype,
    inputs: {
      ...{ q: elements, k: elements, v: elements, out: elements, outGradient: elements },
      logSumExp: rows,
    },
    // Whole numbers of 32 bits that are 0, as are those of f32 with these bits.
    below: { logSumExp: 1 },
    output: { argument: "gradients", elements: 3 * elements },
    args: ({ q, k, v, out, outGradient, gradients, logSumExp }) => {
      const part = (i: number) => ({ handle: gradients!, byteOffset: i * elements * dtypeBytes[dtype] });
      return {
        ...{ ...shape, q: q!, k: k!, v: v!, out: out!, outGradient: outGradient!, logSumExp: logSumExp! },
        ...{ qGradient: part(0), kGradient: part(1), vGradient: part(2) },
      };
    },
    expected({ q, k, v, out, outGradient: g }, index) {
      const part = Math.floor(index / elements);
      const [own, column] = [Math.floor((index % elements) / headSize), index % headSize];
      const first = own - (own % length);
      let [value, tolerance] = [0, 0];
      // Of a query all keys up to it, of a key all queries from it on.
      for (let i = 0; i < length; i++) {
        const [query, key] = part === 0 ? [own, first + i] : [first + i, own];
        if (key > query) continue;
        let [score, change, size, sizeOfScore] = [0, 0, 0, 0];
        for (let d = 0; d < headSize; d++) {
          const [x, y] = [query * headSize + d, key * headSize + d];
          const term = scale * q!.at(x) * k!.at(y);
          score += term;
          sizeOfScore += Math.abs(term);
          const [ofValue, ofOut] = [g!.at(x) * v!.at(y), g!.at(x) * out!.at(x)];
          change += ofValue - ofOut;
          size += Math.abs(ofValue) + Math.abs(ofOut);
        }
        const factor = [scale * k!.at(key * headSize + column), scale * q!.at(query * headSize + column)][
          part
        ];
        const other = factor ?? g!.at(query * headSize + column);
        const weight = Math.exp(score) * other;
        value += part === 2 ? weight : weight * change;
        const ofSums = (length + headSize + 16) * epsilon.f32;
        const ofScore = (headSize + 8) * epsilon.f32 * (sizeOfScore + 2);
        tolerance += Math.abs(weight) * (part === 2 ? 1 : size) * (ofSums + ofScore);
      }
      return { value, tolerance: tolerance + storage(dtype, value) };
    },
    problem: { batch, heads, length, headSize, causal: true },
    ...options,
  });
}
