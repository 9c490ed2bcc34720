import { expect } from "chai";
import { gemm } from "#src/cases/gemm.js";
import { readback } from "#src/cases/overheads.js";
import { cpuDocument, cpuEnd, cpuStart, cpuTables } from "#src/cpu/document.js";
import { cpuDrawing } from "#src/cpu/drawing.js";
import { help, parseCpuOptions } from "#src/cpu/options.js";
import { peerNames } from "#src/cpu/peer.js";
import { problemInF32, problemOf } from "#src/cpu/problem.js";
import type { CpuReport, CpuRow, PeerTimes } from "#src/cpu/results.js";
import { peerRows } from "#src/cpu/rows.js";
import { withSection } from "#src/markdown.js";

const times = (seconds: number) => ({ median: seconds, best: seconds, samples: [seconds] });

const peer = (name: PeerTimes["name"], ratio: number, spread = 0): PeerTimes => ({
  ...times(ratio),
  ...{ name, ratio, bestRatio: ratio, spread, how: "MatMul", worstError: 0.5 },
});

const row = (threads: number, peers: readonly PeerTimes[]): CpuRow => ({
  ...{ case: "gemm f32 512 x 512 x 512", operation: "gemm", threads, flops: 2e9, bytes: 3, goal: 1.35 },
  ours: { ...times(1), worstError: 0 },
  peers,
  ceiling: { ratio: 0.93, bestRatio: 0.95, spread: 0, flopsPerSecond: 63.25e9 },
  ...(threads > 1 ? { scaling: { ratio: 1.9, bestRatio: 1.9, spread: 0.2 } } : {}),
});

const report: CpuReport = {
  date: "2026-11-22T00:00:00.000Z",
  node: "v26.0.0",
  machine: "linux x64, 2 x CPU",
  rounds: 7,
  sampleMilliseconds: 150,
  instruction: "relaxed_madd",
  peers: [
    { name: "jax-js", asked: 1, threads: 1, version: "1.2.3", note: "jit" },
    { name: "jax-js", asked: 2, threads: 2, version: "1.2.3", note: "jit with threads" },
  ],
  rows: [
    row(1, [peer("onnxruntime-web", 1.6), peer("jax-js", 1.359), peer("onnxruntime-node", 0.3)]),
    row(2, [peer("onnxruntime-web", 1.349), peer("jax-js", 2, 0.2)]),
  ],
  startup: [{ threads: 1, load: [30], init: [49, 60, 40], first: [5, 6, 7], second: [1] }],
  missing: [
    { case: "all", threads: 1, name: "tfjs-backend-wasm", reason: "does not start:\n it is gone" },
    { case: "gemm f32 512 x 512 x 512", threads: 2, name: "onnxruntime-node", reason: "wrong" },
  ],
};

describe("what is told of peers", () => {
  const lines = cpuDocument(report).split("\n");

  it("is a row for each number of threads, whose goal holds against the best in WebAssembly", () => {
    expect(lines).to.include.members([
      `| case | threads | us | rate | ${peerNames.join(" | ")} | goal |`,
      "| gemm f32 512 x 512 x 512 | 1 | 1000000 | 2.0 GFLOP/s | 1.60 | fails | 1.35 | 0.30 | 1.35, reached (jax-js, best 1.35) |",
      "| gemm f32 512 x 512 x 512 | 2 | 1000000 | 2.0 GFLOP/s | 1.34 | not asked | 2.00? | fails | 1.35, missed (onnxruntime-web, best 1.34) |",
    ]);
  });

  it("holds large products by a native library against native code", () => {
    const native = cpuDocument({ ...report, blas: "openblas_sgemm" });
    expect(native).to.include("; ours with relaxed_madd, and large products by openblas_sgemm.");
    expect(native).to.include("| 0.30 | 1, missed (onnxruntime-node, best 0.30) |");
    const transformed = cpuDocument({ ...report, transforms: "4x4" });
    expect(transformed).to.include("relaxed_madd, and 3x3 convolutions by transforms of tiles of 4x4.");
    // Where native code was not measured, the goal is the one it was.
    expect(native).to.include("| fails | 1.35, missed (onnxruntime-web, best 1.34) |");
  });

  it("has ceilings, threads and starts with their goals", () => {
    expect(lines).to.include.members([
      "| gemm f32 512 x 512 x 512 | 1 | 63.3 GFLOP/s | 93% | 0.92, reached |  |  |",
      "| gemm f32 512 x 512 x 512 | 2 | 63.3 GFLOP/s | 93% | 0.92, reached | 1.90? | 1.85, reached |",
      "| 1 | 30.0 | 49.0 | 6.0 | 1.0 | init 50, reached; first 5, missed |",
    ]);
  });

  it("says who was there, what was called, and who is missing and why", () => {
    expect(lines).to.include.members([
      "- jax-js 1.2.3 (WebAssembly; threads: 1 of 1, 2 of 2): jit with threads",
      "- jax-js: gemm (MatMul)",
      "- tfjs-backend-wasm, all, 1 thread: does not start: it is gone",
      "- onnxruntime-node, gemm f32 512 x 512 x 512, 2 threads: wrong",
    ]);
  });

  it("is shorter for a page, and stands between two of its lines", () => {
    const tables = cpuTables([report, { ...report, rows: [], startup: [], missing: [] }]);
    expect(tables.split("\n")).to.include.members([
      "| case | us | rate | jax-js | of the ceiling |",
      "| gemm f32 512 x 512 x 512 | 1000000; 1000000 | 2.0; 2.0 GFLOP/s | 1.35; 2.00? | 93%; 93% |",
      "`init` took 49.0 ms, the first product of 256^3 6.0, the second 1.0.",
      '"-": tfjs-backend-wasm: does not start: it is gone; onnxruntime-node: wrong.',
    ]);
    expect(tables).to.not.match(/reached|missed/);
    expect(tables.match(/2026-11-22, Node.js 26.0.0/g)).to.have.length(2);
    const filled = withSection(`a\n${cpuStart}\nold\n${cpuEnd}\nb\n`, cpuStart, cpuEnd, tables);
    expect(filled).to.include(lines[0]).and.not.to.include("old");
  });

  it("is drawn with a dot for each peer of each row", () => {
    const svg = cpuDrawing(report);
    expect(svg).to.include("gemm f32 512 x 512 x 512, 2 threads");
    expect(svg.match(/<circle class="[^"]*" cx="[^"]*" cy="[^"]*" r="5"/g)).to.have.length(
      5 + peerNames.length,
    );
    expect(svg.match(/class="goal"/g)).to.have.length(2);
  });
});

describe("rows for peers", () => {
  it("are named once each, and hold every target", () => {
    const names = peerRows.map(({ test }) => test.name);
    expect(new Set(names).size).to.equal(names.length);
    expect(peerRows.map(({ test, goal }) => `${test.name} | ${goal}`)).to.deep.equal([
      "gemm f32 256 x 256 x 256 | 1.35",
      "gemm f32 512 x 512 x 512 | 1.35",
      "gemm f32 1024 x 1024 x 1024 | 1.35",
      "gemm f32 2048 x 2048 x 2048 | 1.35",
      "gemm f32 1024 x 1024 x 1024, NT | 1.35",
      "gemm f32 32 x 4096 x 1024 | 1.35",
      "batchedGemm f32 16 x 256^3 | 1.7",
      "gemm f32 1 x 4096 x 4096 | 1.05",
      "attention f32 batch 1, 8 heads, length 512, size 64 | 1.8",
      "attention f32 batch 1, 8 heads, length 512, size 64, causal | 3",
      "conv2d f32 1x64x56x56, 3x3 to 64 | 1.4",
      "conv2d f32 1x3x224x224, 7x7 stride 2 to 64 | 1.1",
      "conv2d f32 1x64x56x56, depthwise 3x3 to 64 | 1.3",
      "conv2d f32 1x64x56x56, 1x1 to 64 | 1.35",
      "reduce f32 sum of 4096 x 4096, axis 1 | 1.3",
      "reduce f32 sum of 4096 x 4096, axis 0 | 1.2",
      "unary f32 exp of 16777216 | 3",
      "unary f32 tanh of 16777216 | 4",
      "unary f32 gelu of 16777216 | 4",
      "unary f32 relu of 16777216 | 1",
      "binary f32 add 16777216 | 1",
      "binary f32 mul 16777216 | 1",
      "softmax f32 softmax 4096x1024 | 1.3",
      "softmax f32 logSoftmax 4096x1024 | 1.3",
      "normalize f32 layer norm 4096x1024 | 1.3",
      "normalize f32 rms norm 4096x1024 | 1.3",
      "copy f32 transpose 2048x2048 | 1",
      "copy f32 NCHW to NHWC 4x64x128x128 | 1",
      "gather f32 16384 of 50257x256 | 1",
      "gather f32 4096x1024 along rows | 1",
      "scatter f32 add 16384 to 4096x256 | 1.3",
      "rope f32 neighbours 1x32x1024x128 | 1",
      "rope f32 halves 1x32x1024x128 | 1",
      "argReduce f32 argMax 4096x4096 | 1.3",
      "pool2d f32 max 3x3 stride 2 of 4x64x112x112 | 1.3",
      "pool2d f32 mean 2x2 of 4x64x112x112 | 1.3",
      "resize2d f32 bilinear x2 of 4x64x56x56 | 1.3",
      "resize2d f32 nearest x2 of 4x64x56x56 | 1",
      "select f32 16777216 | 1",
      "quantizedGemm f32 4 bits 1x4096x4096 | 1.3",
      "quantizedGemm f32 4 bits 32x4096x4096 | 1.3",
      "scan f32 sum 4096x1024 | 1.3",
      "sort f32 descending 1024x1024 | 1.3",
      "sort f32 descending 1x1048576 | 1.3",
      "sort f32 descending first 40 of 64x32768 | 1.3",
      "pool2d f32 max 3x3 stride 2 of 4x64x112x112, channels last | 1.3",
      "pool2d f32 mean 2x2 of 4x64x112x112, channels last | 1.3",
      "resize2d f32 bilinear x2 of 4x64x56x56, channels last | 1.3",
      "resize2d f32 nearest x2 of 4x64x56x56, channels last | 1",
      "copy f32 slice 1000 of 1024 columns | 1",
      "copy f32 flip 4096x1024 | 1",
      "copy f32 f32 to f16 | 1",
      "copy f32 concat of two 4096x512 by columns | 1",
      "copy f32 pad 4096x1024 by 1 | 1",
      "binary f32 greater 16777216 | 1",
      "reduce f32 logSumExp of 4096 x 1024, axis 1 | 1.3",
      "reduce f32 logSumExp of 4096 x 1024, axis 0 | 1.3",
      "map f32 chain of six, 4194304 | 1.3",
      "random f32 uniform 4194304 | 1.3",
      "random f32 normal 4194304 | 1.3",
      "attention f32 batch 1, 8 heads, length 512, size 64, additive mask | 1.3",
      "attention f32 batch 1, 8 heads, length 512, size 64, boolean mask | 1.3",
      "softmax f16 softmax 4096x1024 | 1.3",
      "normalize f16 layer norm 4096x1024 | 1.3",
      "gemm f16 512 x 512 x 512 | 1.3",
      "softmaxGradient f32 gradient of softmax 4096x1024 | 1.5",
      "normalizeGradient f32 gradients of layer norm 4096x1024 | 1.5",
      "normalizeGradient f32 gradients of rms norm 4096x1024 | 1.5",
      "pool2dGradient f32 gradient of max 3x3 stride 2 of 1x64x112x112 | 1.5",
      "pool2dGradient f32 gradient of mean 2x2 stride 2 of 1x64x112x112 | 1.5",
      "conv2dInputGradient f32 1x64x56x56, 3x3 to 64 | 1.5",
      "conv2dFilterGradient f32 1x64x56x56, 3x3 to 64 | 1.5",
      "conv2dInputGradient f32 1x64x56x56, 1x1 to 64 | 1.5",
      "conv2dFilterGradient f32 1x64x56x56, 1x1 to 64 | 1.5",
      "conv2dInputGradient f32 1x64x56x56, depthwise 3x3 to 64 | 1.5",
      "conv2dFilterGradient f32 1x64x56x56, depthwise 3x3 to 64 | 1.5",
      "attentionGradient f32 8 heads, length 512, size 64 | 1.5",
      "attentionGradient f32 8 heads, length 512, size 64, causal | 1.5",
      "map f32 Adam, 4194304 | 1.5",
    ]);
  });

  it("are single operations", () => {
    for (const { test } of peerRows) expect(problemOf(test).operation).to.equal(test.operation);
    expect(() => problemOf(readback(4))).to.throw("read back 4 bytes is readback; allowed: gemm, ");
  });

  it("are not asked of a library without their element type", () => {
    expect(problemInF32(gemm(8, 8, 8), "tfjs").operation).to.equal("gemm");
    expect(() => problemInF32(gemm(8, 8, 8, { dtype: "f16" }), "tfjs")).to.throw("tfjs has no f16 here");
    const converts = peerRows.find(({ test }) => test.name.includes("f32 to f16"))!;
    expect(() => problemInF32(converts.test, "jax-js")).to.throw("jax-js has no f16 here");
  });
});

describe("options of the comparison with peers", () => {
  it("ask for everything by default", () => {
    const { threads, rows, peers, rounds } = parseCpuOptions([]);
    expect({ threads, rounds }).to.deep.equal({ threads: [1, 2], rounds: 7 });
    expect(rows).to.deep.equal(peerRows.map(({ test }) => test.name));
    expect(peers).to.deep.equal(peerNames);
  });

  it("choose rows, libraries and threads", () => {
    const args = [
      "--only",
      "256^3",
      "--only",
      "gelu",
      "--peer",
      "jax-js",
      "--threads",
      "4",
      "--blas",
      "auto",
      "--transforms",
      "4x4",
    ];
    const { threads, rows, peers, blas, transforms } = parseCpuOptions(args);
    expect(transforms).to.equal("4x4");
    expect(parseCpuOptions([]).transforms).to.equal("never");
    expect(blas).to.equal("auto");
    expect(rows).to.deep.equal(["batchedGemm f32 16 x 256^3", "unary f32 gelu of 16777216"]);
    expect({ threads, peers }).to.deep.equal({ threads: [4], peers: ["jax-js"] });
  });

  it("are refused with what is allowed, and are all named in the help", () => {
    const refused: readonly [readonly string[], string][] = [
      [["--peer", "numpy"], "--peer is numpy; allowed: onnxruntime-web"],
      [["--only", "nothing"], "--only is nothing; allowed: a part of a name"],
      [["--threads", "0"], "--threads is 0; allowed: whole numbers above 0"],
      [["--rounds", "2.5"], "--rounds is 2.5; allowed: whole numbers above 0"],
      [["--transforms", "3x3"], "--transforms is 3x3; allowed: never, 2x2, 4x4"],
      [["--frist"], "--frist"],
    ];
    for (const [args, message] of refused)
      expect(() => parseCpuOptions(args), args.join(" ")).to.throw(message);
    for (const name of [
      "threads",
      "only",
      "peer",
      "blas",
      "transforms",
      "rounds",
      "milliseconds",
      "json",
      "svg",
      "from",
      "into",
    ])
      expect(help).to.include(`--${name} `);
  });
});
