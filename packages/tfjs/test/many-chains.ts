import { parentPort } from "node:worker_threads";
import { cpu } from "@backplane/backend-cpu";
import { register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { callsOf } from "./fusion.js";

/* Computes more different chains than are kept, in a worker: none are left then for other tests. */

/** The calls of the backend for chains, and how far off any element was. */
export interface ManyChainsReport {
  /** Of chains that are all different. */
  readonly calls: readonly (readonly string[])[];
  /** Of the first of them once more. */
  readonly again: readonly string[];
  readonly largestError: number;
}

const steps: readonly (readonly [(x: tf.Tensor) => tf.Tensor, (x: number) => number])[] = [
  [tf.abs, Math.abs],
  [tf.atan, Math.atan],
  [tf.cos, Math.cos],
  [tf.elu, (x) => (x >= 0 ? x : Math.expm1(x))],
  [tf.neg, (x) => -x],
  [tf.relu, (x) => Math.max(x, 0)],
  [tf.sigmoid, (x) => 1 / (1 + Math.exp(-x))],
  [tf.sin, Math.sin],
  [tf.softplus, (x) => Math.log1p(Math.exp(x))],
  [tf.tanh, Math.tanh],
];
/** Of the chains beyond the thousandth. */
const square: (typeof steps)[number] = [tf.square, (x) => x * x];
const given = [-2, -0.5, 0.25, 3];

async function main(): Promise<ManyChainsReport> {
  const registration = await register(tf, [cpu({ threads: 0 })], { hostElements: 0 });
  let largestError = 0;
  const calls = (chain: readonly (typeof steps)[number][]): readonly string[] =>
    callsOf(registration.compute, () => {
      const values = tf.tidy(() =>
        chain.reduce<tf.Tensor>((x, [step]) => step(x), tf.tensor1d(given)).dataSync(),
      );
      for (const [i, value] of values.entries()) {
        const expected = chain.reduce((x, [, step]) => step(x), given[i]!);
        largestError = Math.max(largestError, Math.abs(value - expected));
      }
    });
  const all = steps.flatMap((a) => steps.flatMap((b) => steps.map((c) => [a, b, c])));
  const report = {
    calls: [...all, ...steps.map((a) => [square, a, a])].map(calls),
    again: calls(all[0]!),
    largestError,
  };
  await registration.dispose();
  return report;
}

parentPort!.postMessage(await main());
