import { Batcher, classes, type Digits } from "./data.js";
import type { Network } from "./network.js";

/** The network's logits for all of these digits: count x 10. */
export async function logitsOf(
  network: Network,
  digits: Digits,
  onProgress: (done: number) => Promise<void>,
): Promise<Float32Array> {
  const batcher = new Batcher(digits, network.batch);
  const all = new Float32Array(digits.count * classes);
  for (let start = 0; start < digits.count; start += network.batch) {
    const count = Math.min(network.batch, digits.count - start);
    network.forward(batcher.gather(Uint32Array.from({ length: count }, (_, i) => start + i)));
    all.set(await network.logits(), start * classes);
    await onProgress(start + count);
  }
  return all;
}

/** The digit that each row of logits speaks for. */
export function predictions(logits: Float32Array): Uint8Array {
  return Uint8Array.from({ length: logits.length / classes }, (_, row) => {
    const scores = logits.subarray(row * classes, (row + 1) * classes);
    return scores.indexOf(Math.max(...scores));
  });
}

/** How many predictions are right. */
export function countCorrect(predicted: Uint8Array, labels: Uint8Array): number {
  return predicted.reduce((correct, digit, i) => correct + (digit === labels[i] ? 1 : 0), 0);
}

/** How far two lists of numbers are apart. */
export interface Difference {
  /** max |a[i] - b[i]|; NaN if any number is. */
  readonly absolute: number;
  /** max |a[i]|: against this an absolute difference is large or small. */
  readonly scale: number;
  /** absolute / scale */
  readonly relative: number;
}

export function largestDifference(a: Float32Array, b: Float32Array): Difference {
  let absolute = 0;
  let scale = 0;
  a.forEach((value, i) => {
    // Math.max passes NaN on, so that a broken result cannot look like a small difference.
    absolute = Math.max(absolute, Math.abs(value - b[i]!));
    scale = Math.max(scale, Math.abs(value));
  });
  return { absolute, scale, relative: absolute === 0 ? 0 : absolute / scale };
}
