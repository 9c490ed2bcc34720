import type { Corpus } from "./corpus.js";

const VOCABULARY = 256;

/** Counted to every pair beforehand, so that none is impossible. */
const PRIOR = 0.05;

/**
 * The mean loss, in nats per byte, with which the held-out text follows from the byte before each: the probability of a pair
 * is its share in the training text. A model that knows less than this has learned nothing of words.
 */
export function bigramLoss({ training, heldOut }: Corpus): number {
  const counts = new Float64Array(VOCABULARY * VOCABULARY).fill(PRIOR);
  const totals = new Float64Array(VOCABULARY).fill(PRIOR * VOCABULARY);
  for (let i = 1; i < training.length; i++) {
    counts[VOCABULARY * training[i - 1]! + training[i]!]! += 1;
    totals[training[i - 1]!]! += 1;
  }
  let loss = 0;
  for (let i = 1; i < heldOut.length; i++)
    loss -= Math.log(counts[VOCABULARY * heldOut[i - 1]! + heldOut[i]!]! / totals[heldOut[i - 1]!]!);
  return loss / (heldOut.length - 1);
}
