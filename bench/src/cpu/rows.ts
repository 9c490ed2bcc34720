import { attention } from "../cases/attention.js";
import type { Case } from "../cases/case.js";
import { conv2d } from "../cases/conv2d.js";
import { conv2dGradients } from "../cases/conv2d-gradients.js";
import { derivedCases } from "../cases/derived.js";
import { add, binary, unary } from "../cases/elementwise.js";
import { batchedGemm, gemm } from "../cases/gemm.js";
import { reduce } from "../cases/reduce.js";
import { adam, chainOfSix, channelsLast, copies, halves, randoms, reductions } from "./cases.js";
import { attentionGradient, normalizeGradient, pool2dGradient, softmaxGradient } from "./gradients.js";

/** A case that peers do too. */
export interface PeerRow {
  readonly test: Case;
  /** The goal: how many times as fast as the best peer in WebAssembly ours should be. */
  readonly goal: number;
  /** Also against one thread and against the ceiling: products that are large enough for both to tell. */
  readonly scales: boolean;
}

const row = (test: Case, goal: number): PeerRow => ({ test, goal, scales: false });
const square = (size: number): PeerRow => ({
  ...row(gemm(size, size, size), 1.35),
  scales: size >= 512,
});

const heads = { batch: 1, heads: 8, length: 512, headSize: 64 };
const image = { batch: 1, channels: 64, size: 56, filters: 64 };
const elements = 2 ** 24;

/** Milliseconds of `init`, and of a first product of 256^3 after it. */
export const initGoal = 50;
export const firstGoal = 5;
/** The goal for two threads: how many times as fast as one, from 512^3. */
export const scalingGoal = 1.85;
/** The goal for products from 512^3 in a native library: how many times as fast as native code. */
export const blasGoal = 1;
/** The goal as a share of the rate of multiplying and adding in registers. */
export const ceilingGoal = 0.92;

/** Calls that only move elements, at the rate of memory. */
const moves: readonly string[] = ["copy", "gather", "select", "rope", "resize2d f32 nearest"];

/** The goal for gradients: how many times as fast as jax-js. */
const gradientGoal = 1.5;

const gradients: readonly Case[] = [
  softmaxGradient(4096, 1024),
  normalizeGradient("layer", 4096, 1024),
  normalizeGradient("rms", 4096, 1024),
  pool2dGradient("max", 1, 64, 112),
  pool2dGradient("mean", 1, 64, 112),
  ...conv2dGradients({ ...image, kernel: 3 }),
  ...conv2dGradients({ ...image, kernel: 1 }),
  ...conv2dGradients({ ...image, kernel: 3, depthwise: true }),
  attentionGradient({ heads: 8, length: 512, headSize: 64, causal: false }),
  attentionGradient({ heads: 8, length: 512, headSize: 64, causal: true }),
  adam,
];

export const peerRows: readonly PeerRow[] = [
  square(256),
  square(512),
  square(1024),
  square(2048),
  row(gemm(1024, 1024, 1024, { transB: true }), 1.35),
  row(gemm(32, 4096, 1024), 1.35),
  row(batchedGemm(16, 256), 1.7),
  row(gemm(1, 4096, 4096), 1.05),
  row(attention(heads), 1.8),
  row(attention({ ...heads, causal: true }), 3),
  row(conv2d({ ...image, kernel: 3 }), 1.4),
  row(conv2d({ batch: 1, channels: 3, size: 224, filters: 64, kernel: 7, stride: 2 }), 1.1),
  row(conv2d({ ...image, kernel: 3, depthwise: true }), 1.3),
  row(conv2d({ ...image, kernel: 1 }), 1.35),
  row(reduce("sum", [4096, 4096], 1), 1.3),
  row(reduce("sum", [4096, 4096], 0), 1.2),
  row(unary("exp", elements), 3),
  row(unary("tanh", elements), 4),
  row(unary("gelu", elements), 4),
  row(unary("relu", elements), 1),
  row(add(4096, 4096, false), 1),
  row(binary("mul", 4096, 4096, false), 1),
  ...[...derivedCases("peers"), ...channelsLast].map((test) =>
    row(test, moves.some((start) => test.name.startsWith(start)) ? 1 : 1.3),
  ),
  ...copies.map((test) => row(test, 1)),
  row(binary("greater", 4096, 4096, false), 1),
  ...reductions.map((test) => row(test, 1.3)),
  row(chainOfSix, 1.3),
  ...randoms.map((test) => row(test, 1.3)),
  row(attention({ ...heads, mask: "additive" }), 1.3),
  row(attention({ ...heads, mask: "boolean" }), 1.3),
  ...halves.map((test) => row(test, 1.3)),
  row(gemm(512, 512, 512, { dtype: "f16" }), 1.3),
  ...gradients.map((test) => row(test, gradientGoal)),
];
