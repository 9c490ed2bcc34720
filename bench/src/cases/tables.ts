import { attention } from "./attention.js";
import { attentionGradient } from "./attention-gradient.js";
import type { Case } from "./case.js";
import { conv2d } from "./conv2d.js";
import { conv2dGradients } from "./conv2d-gradients.js";
import { derivedCases, narrowCases } from "./derived.js";
import { add, binary, unary } from "./elementwise.js";
import { batchedGemm, gemm } from "./gemm.js";
import {
  dependentOperations,
  independentOperations,
  readback,
  readbackAfterStep,
  recordedOperations,
  transfer,
  varyingOperations,
  waitAfterOperation,
} from "./overheads.js";
import { peers } from "./peers.js";
import { reduce } from "./reduce.js";

/** For two cores and software adapters. */
const small: readonly Case[] = [
  gemm(256, 256, 256),
  gemm(512, 512, 512),
  gemm(512, 512, 512, { transB: true }),
  gemm(512, 512, 512, { dtype: "f16" }),
  gemm(32, 1024, 1024),
  gemm(1, 1024, 1024),
  batchedGemm(16, 128),
  conv2d({ batch: 1, channels: 32, size: 28, filters: 32, kernel: 3 }),
  conv2d({ batch: 1, channels: 64, size: 28, filters: 64, kernel: 3, depthwise: true }),
  ...conv2dGradients({ batch: 2, channels: 32, size: 28, filters: 32, kernel: 3 }),
  ...conv2dGradients({ batch: 2, channels: 64, size: 28, filters: 64, kernel: 3, depthwise: true }),
  ...conv2dGradients({ batch: 64, channels: 1, size: 28, filters: 8, kernel: 5 }),
  attention({ heads: 4, length: 256, headSize: 64 }),
  attention({ heads: 4, length: 256, headSize: 64, causal: true }),
  attention({ heads: 8, kvHeads: 2, length: 1024, queries: 1, headSize: 64, dtype: "f16" }),
  attention({ heads: 4, length: 256, headSize: 64, causal: true, isFused: true }),
  attention({ heads: 4, length: 256, headSize: 64, mask: "additive" }),
  attention({ heads: 4, length: 256, headSize: 64, dtype: "f16", mask: "boolean" }),
  attention({ heads: 8, kvHeads: 2, length: 1024, queries: 1, headSize: 64, dtype: "f16", room: 1100 }),
  attentionGradient({ heads: 4, length: 256, headSize: 64 }),
  reduce("sum", [1024, 1024], "all"),
  reduce("sum", [1024, 1024], 0),
  reduce("sum", [1024, 1024], 1),
  reduce("max", [64, 256, 64], 1),
  unary("exp", 2 ** 20),
  unary("tanh", 2 ** 20),
  unary("gelu", 2 ** 20),
  add(1024, 1024, false),
  add(1024, 1024, true),
  dependentOperations(1024),
  recordedOperations(1024),
  varyingOperations(1024),
  independentOperations(400),
  waitAfterOperation(),
  readback(4),
  readbackAfterStep(),
  readback(2 ** 16),
  readback(2 ** 20),
  transfer("upload", 2 ** 24),
  transfer("download", 2 ** 24),
  ...derivedCases("small"),
];

const torch = (atLeast: number) => ({ goal: { against: "torch", atLeast } }) as const;
const copy = (atLeast: number) => ({ goal: { against: "copy", atLeast } }) as const;
const like = (other: Case, atLeast: number) => ({ goal: { against: "case", other, atLeast } }) as const;
const within = (microseconds: number) => ({ goal: { against: "time", microseconds, atLeast: 1 } }) as const;

/** A large product and its goal; the harder forms below are compared with it. */
const square = gemm(4096, 4096, 4096, torch(0.9));
const squareOfHalves = gemm(4096, 4096, 4096, { dtype: "f16", matrices: true, ...torch(0.6) });
/** Images as in the middle of a residual network. */
const images = { batch: 32, channels: 256, size: 56 };
const depthwise = conv2d({ ...images, filters: 256, kernel: 3, depthwise: true }, torch(0.6));
const mebibytes256 = 2 ** 28;
const bothMasks = [false, true];

function attentions(dtype: "f32" | "f16", length: number, headSize: number, atLeast: number): Case[] {
  return bothMasks.map((causal) =>
    attention({ dtype, batch: 4, heads: 16, length, headSize, causal }, torch(atLeast)),
  );
}

/** Queries, keys and values side by side, and masks, next to the plain form. */
function attentionForms(dtype: "f32" | "f16"): Case[] {
  const size = { dtype, batch: 4, heads: 16, length: 2048, headSize: 64 };
  const [plain, causal] = bothMasks.map((causal) => attention({ ...size, causal }));
  return [
    attention({ ...size, isFused: true }, like(plain!, 0.95)),
    attention({ ...size, causal: true, isFused: true }, like(causal!, 0.95)),
    attention({ ...size, mask: "additive" }, like(plain!, 0.85)),
    attention({ ...size, mask: "boolean" }, like(plain!, 0.85)),
  ];
}

/** A query on a cache with room for more keys, next to one that is full. */
const cachedQueries: readonly Case[] = [4000, 16_384].map((length) => {
  const size = { dtype: "f16", heads: 32, kvHeads: 8, length, queries: 1, headSize: 128 } as const;
  return attention({ ...size, room: length + 4096 }, like(attention(size), 1));
});

function gradients(dtype: "f32" | "f16", headSize: number, atLeast: number): Case {
  return attentionGradient({ dtype, batch: 4, heads: 16, length: 2048, headSize }, torch(atLeast));
}

/** For GPUs: every row of the targets in docs/performance/gpu.md. */
const large: readonly Case[] = [
  gemm(1024, 1024, 1024, torch(0.9)),
  square,
  gemm(2048, 2048, 2048, torch(0.9)),
  gemm(8192, 8192, 8192, torch(0.9)),
  gemm(4096, 4096, 4096, { transB: true, ...like(square, 0.85) }),
  gemm(4096, 4096, 4096, { transA: true, ...like(square, 0.85) }),
  gemm(4096, 4096, 4096, { transA: true, transB: true, ...like(square, 0.85) }),
  gemm(4095, 4097, 4093, like(square, 0.85)),
  gemm(4096, 4096, 4096, { padding: 8, ...like(square, 0.85) }),
  squareOfHalves,
  gemm(8192, 8192, 8192, { dtype: "f16", matrices: true, ...torch(0.6) }),
  ...[{ transB: true }, { transA: true }, { transA: true, transB: true }].map((form) =>
    gemm(4096, 4096, 4096, { dtype: "f16", matrices: true, ...form, ...like(squareOfHalves, 0.9) }),
  ),
  gemm(4095, 4097, 4093, { dtype: "f16", matrices: true, ...like(squareOfHalves, 0.9) }),
  gemm(4096, 4096, 4096, { dtype: "f16", matrices: false, ...like(square, 1) }),
  batchedGemm(64, 512, torch(0.75)),
  batchedGemm(1024, 64, torch(0.75)),
  gemm(1, 16384, 16384, copy(0.75)),
  gemm(1, 16384, 16384, { transB: true, ...copy(0.75) }),
  gemm(1, 11008, 4096, { dtype: "f16", transB: true, ...copy(0.6) }),
  gemm(8, 16384, 16384, copy(0.75)),
  gemm(32, 16384, 16384, copy(0.75)),
  gemm(128, 128, 65536, torch(0.75)),
  conv2d({ ...images, filters: 256, kernel: 3 }, torch(0.6)),
  conv2d({ ...images, filters: 1024, kernel: 1 }, torch(0.6)),
  conv2d({ batch: 32, channels: 3, size: 224, filters: 64, kernel: 7, stride: 2 }, torch(0.6)),
  depthwise,
  conv2d({ ...images, filters: 256, kernel: 3, depthwise: true, layout: "NHWC" }, like(depthwise, 0.9)),
  ...conv2dGradients({ ...images, filters: 256, kernel: 3 }, torch(0.4)),
  ...conv2dGradients({ ...images, filters: 1024, kernel: 1 }, torch(0.8)),
  ...conv2dGradients({ ...images, filters: 256, kernel: 3, depthwise: true }, torch(0.8)),
  ...conv2dGradients({ batch: 32, channels: 3, size: 224, filters: 64, kernel: 7, stride: 2 }, torch(0.6)),
  ...conv2dGradients({ batch: 32, channels: 128, size: 56, filters: 128, kernel: 3, stride: 2 }, torch(0.6)),
  ...conv2dGradients({ batch: 64, channels: 1, size: 28, filters: 8, kernel: 5 }, torch(0.6)),
  ...attentions("f32", 2048, 64, 0.8),
  ...attentions("f32", 2048, 128, 0.8),
  ...attentions("f16", 2048, 64, 0.3),
  ...attentions("f16", 2048, 128, 0.3),
  ...attentions("f16", 8192, 64, 0.3),
  ...attentions("f16", 8192, 128, 0.3),
  attention({ dtype: "f16", heads: 32, kvHeads: 8, length: 16384, queries: 1, headSize: 128 }, copy(0.6)),
  ...(["f32", "f16"] as const).flatMap(attentionForms),
  ...cachedQueries,
  gradients("f32", 64, 0.75),
  gradients("f32", 128, 0.75),
  gradients("f16", 64, 0.25),
  gradients("f16", 128, 0.25),
  ...(["sum", "max"] as const).flatMap((kind) => [
    reduce(kind, [2 ** 28], "all", copy(0.85)),
    reduce(kind, [4096, 64, 1024], 2, copy(0.85)),
    reduce(kind, [4096, 64, 1024], 0, copy(0.85)),
    reduce(kind, [4096, 64, 1024], 1, copy(0.85)),
  ]),
  unary("exp", mebibytes256 / 4, copy(0.9)),
  unary("gelu", mebibytes256 / 4, copy(0.9)),
  unary("tanh", mebibytes256 / 4, copy(0.9)),
  add(8192, 8192, false, copy(0.9)),
  add(8192, 8192, true, copy(0.9)),
  binary("greater", 8192, 8192, false, copy(0.9)),
  dependentOperations(1024, within(5)),
  recordedOperations(1024, within(2.5)),
  varyingOperations(1024, within(3)),
  waitAfterOperation(within(60)),
  readback(4, within(60)),
  readbackAfterStep(within(45)),
  readback(2 ** 16, within(80)),
  readback(2 ** 20, within(250)),
  ...[4 * 2 ** 20, mebibytes256].flatMap((bytes) => [
    transfer("upload", bytes, torch(1)),
    transfer("download", bytes, torch(0.8)),
  ]),
  ...peers,
  ...derivedCases("large"),
  ...narrowCases("large"),
];

/** Powers of two from one to another, both included, each `factor` times the one before. */
function powers(from: number, to: number, factor: number): number[] {
  const sizes: number[] = [];
  for (let size = from; size <= to; size *= factor) sizes.push(size);
  return sizes;
}

interface Reach {
  readonly gemm: number;
  readonly attention: number;
  readonly reduce: number;
}

/** Time against size: three operations from tiny to the largest that a device of this kind is asked. */
function curves(reach: Reach): Case[] {
  const compared = { goal: { against: "torch", atLeast: 0 } } as const;
  return [
    ...powers(64, reach.gemm, 2).flatMap((x) => [
      gemm(x, x, x, { curve: { name: "gemm f32", x }, ...compared }),
      gemm(x, x, x, { dtype: "f16", matrices: true, curve: { name: "gemm f16", x }, ...compared }),
    ]),
    ...powers(128, reach.attention, 2).map((x) =>
      attention({ heads: 16, length: x, headSize: 64 }, { curve: { name: "attention f32", x }, ...compared }),
    ),
    ...powers(2 ** 10, reach.reduce, 4).map((x) =>
      reduce("sum", [x], "all", { curve: { name: "reduce f32", x }, ...compared }),
    ),
  ];
}

export type Size = "small" | "large";

/** Single figures by size of machine. */
export const tables: Readonly<Record<Size, readonly Case[]>> = { small, large };

/** Curves by size of machine. */
export const sweeps: Readonly<Record<Size, readonly Case[]>> = {
  small: curves({ gemm: 512, attention: 512, reduce: 2 ** 22 }),
  large: curves({ gemm: 8192, attention: 16384, reduce: 2 ** 28 }),
};
