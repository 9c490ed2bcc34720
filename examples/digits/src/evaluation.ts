import type { ComputeBackend } from "@backplane/core";
import { type Layer, scope } from "@backplane/tensor";
import { classes, type Digits, gather } from "./data.js";
import { imagesOf } from "./training.js";

/** The model's logits for all of these digits: count x 10. */
export async function logitsOf(
  backend: ComputeBackend,
  model: Layer,
  digits: Digits,
  batch: number,
  onProgress: (done: number) => Promise<void>,
): Promise<Float32Array> {
  const all = new Float32Array(digits.count * classes);
  for (let start = 0; start < digits.count; start += batch) {
    const count = Math.min(batch, digits.count - start);
    const numbers = Uint32Array.from({ length: count }, (_, i) => start + i);
    using logits = scope(() => model.forward(imagesOf(backend, gather(digits, numbers))));
    all.set(await logits.data(), start * classes);
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
