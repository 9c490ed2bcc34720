import { attention } from "./attention.js";
import type { Case } from "./case.js";
import { conv2d } from "./conv2d.js";
import { add, unary } from "./elementwise.js";
import { batchedGemm, gemm } from "./gemm.js";
import { reduce } from "./reduce.js";

/** JavaScript libraries on WebGPU, of November 2026. */
const ortNode = "onnxruntime-node";
const ortWeb = "onnxruntime-web";
const tfjs = "tfjs-webgpu";

/** A case, and the best rate of any of them; the goal is to be 1.3 times as fast. */
function beside(test: Case, by: string, rate: number, of: "flops" | "bytes"): Case {
  const microseconds = (test.cost[of] / rate) * 1e6;
  return { ...test, name: `${test.name}, peers`, goal: { against: "time", microseconds, by, atLeast: 1.3 } };
}

const teraflops = (test: Case, by: string, rate: number) => beside(test, by, rate * 1e12, "flops");
const gigabytes = (test: Case, by: string, rate: number) => beside(test, by, rate * 1e9, "bytes");

const heads = { heads: 8, length: 2048, headSize: 64 };

/**
 * Rates were measured on an NVIDIA H200 in Node.js, once, with the same counts of operations and bytes, and
 * not in turns with ours. On other devices, these comparisons say nothing.
 */
export const peers: readonly Case[] = [
  teraflops(gemm(1024, 1024, 1024), tfjs, 15.5),
  teraflops(gemm(2048, 2048, 2048), tfjs, 21.4),
  teraflops(gemm(4096, 4096, 4096), ortWeb, 22.9),
  teraflops(gemm(1024, 1024, 1024, { transB: true }), tfjs, 12.4),
  gigabytes(gemm(1, 4096, 4096), tfjs, 558),
  teraflops(gemm(32, 4096, 1024), tfjs, 2),
  teraflops(batchedGemm(16, 256), ortNode, 8.6),
  teraflops(attention(heads), ortNode, 12.8),
  teraflops(attention({ ...heads, causal: true }), ortNode, 6.6),
  teraflops(conv2d({ batch: 1, channels: 64, size: 56, filters: 64, kernel: 3 }), ortNode, 2.4),
  teraflops(conv2d({ batch: 1, channels: 3, size: 224, filters: 64, kernel: 7, stride: 2 }), ortNode, 3.8),
  gigabytes(reduce("sum", [4096, 4096], 1), tfjs, 1512),
  gigabytes(reduce("sum", [4096, 4096], 0), tfjs, 573),
  gigabytes(unary("exp", 2 ** 24), ortNode, 1756),
  gigabytes(unary("relu", 2 ** 24), ortNode, 1764),
  gigabytes(add(4096, 4096, false), tfjs, 3821),
  gigabytes(add(8192, 8192, false), tfjs, 1864),
];
