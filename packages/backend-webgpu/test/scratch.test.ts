import {
  type AttentionProblem,
  type Conv2dProblem,
  dtypeBytes,
  type FloatType,
  floatTypes,
  type GemmProblem,
  type OperationName,
  type ReduceProblem,
} from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { attention } from "#src/kernels/attention/index.js";
import { conv2d } from "#src/kernels/conv2d/index.js";
import { gemm } from "#src/kernels/gemm/index.js";
import type { OperationEntry } from "#src/kernels/operation.js";
import { reduce } from "#src/kernels/reduce/index.js";
import { placeholder, type SegmentTools } from "#src/kernels/segments/index.js";
import type { BufferRegion, KernelDefinition } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { mostScratch, portable } from "./support.js";

const roomy: DeviceFeatures = {
  ...portable,
  ...{ shaderF16: true, subgroups: true, subgroupIds: true, subgroupMinSize: 32, subgroupMaxSize: 32 },
  limits: {
    ...portable.limits,
    maxComputeWorkgroupStorageSize: 49152,
    maxComputeInvocationsPerWorkgroup: 1024,
  },
};
const withMatrices: DeviceFeatures = { ...roomy, subgroupMatrices: ["16x16x16"] };
const devices: readonly DeviceFeatures[] = [
  portable,
  roomy,
  withMatrices,
  { ...withMatrices, splitsProducts: true },
  { ...portable, transformedConvolutions: "2x2" },
  { ...roomy, transformedConvolutions: "4x4" },
];

const elements = (dtype: FloatType, count: number): BufferRegion => placeholder(dtypeBytes[dtype] * count);

const products: readonly GemmProblem<DeviceMemory>[] = floatTypes.flatMap((dtype) =>
  (
    [
      [1, 1, 100_000, 1],
      [1, 4096, 4096, 1],
      [4096, 3, 4096, 1],
      [31, 1000, 5000, 1],
      [32, 16384, 16384, 1],
      [128, 128, 65536, 1],
      [64, 64, 64, 1024],
      [300, 500, 900, 7],
      [512, 520, 4096, 1],
      [4095, 4097, 4093, 1],
    ] as const
  ).flatMap(([m, n, k, batch]) =>
    [false, true].map((transB) => ({
      ...{ dtype, m, n, k, batch, transA: transB && m > 1, transB, alpha: 1, beta: 0 },
      ...{ lda: transB && m > 1 ? m : k, ldb: transB ? k : n, ldc: n },
      ...{ strideA: m * k, strideB: k * n, strideC: m * n, bias: undefined, activation: undefined },
      ...{ a: elements(dtype, batch * m * k), b: elements(dtype, batch * k * n) },
      c: elements(dtype, batch * m * n),
    })),
  ),
);

const attentions: readonly AttentionProblem<DeviceMemory>[] = floatTypes.flatMap((dtype) =>
  (
    [
      [1, 32, 8, 1, 16384, 128],
      [1, 64, 1, 1, 129, 256],
      [1, 1, 1, 64, 65, 8],
      [600, 4, 1, 1, 700, 64],
      [1, 5, 5, 3, 70_000, 30],
      [4, 16, 16, 2048, 2048, 64],
      [1, 1, 1, 40, 9000, 300],
      [8, 32, 32, 2048, 16, 66],
    ] as const
  ).map(([batch, heads, kvHeads, queryLength, keyLength, headSize]) => {
    const queries = elements(dtype, batch * heads * queryLength * headSize);
    const keys = elements(dtype, batch * kvHeads * keyLength * headSize);
    return {
      ...{ dtype, batch, heads, kvHeads, queryLength, keyLength, headSize, scale: 1, visible: keyLength },
      ...{
        keyPitch: keyLength,
        oldest: undefined,
        mask: undefined,
        rows: undefined,
        q: queries,
        k: keys,
        v: keys,
        out: queries,
        logSumExp: undefined,
      },
    };
  }),
);

const reductions: readonly ReduceProblem<DeviceMemory, FloatType>[] = floatTypes.flatMap((dtype) =>
  (
    [
      [1, 1 << 26],
      [3, 5_000_000],
      [1 << 20, 2],
      [5000, 129],
    ] as const
  ).flatMap(([outputCount, reducedCount]) =>
    [true, false].map((inner) => ({
      ...{ kind: "sum" as const, dtype, outputCount, reducedCount },
      kept: [{ extent: outputCount, stride: inner ? reducedCount : 1 }],
      reduced: [{ extent: reducedCount, stride: inner ? 1 : outputCount }],
      ...{ input: elements(dtype, outputCount * reducedCount), output: elements(dtype, outputCount) },
    })),
  ),
);

/** Of 3 x 3 filters, for which some kernels need scratch. */
const convolutions: readonly Conv2dProblem<DeviceMemory>[] = (
  [
    [1, 1, 1, 1, 1],
    [1, 300, 1, 1, 1],
    [1, 1, 300, 1, 1],
    [3, 65, 33, 5, 2],
    [8, 128, 128, 56, 56],
    [1, 2048, 2048, 7, 7],
    [1, 3, 64, 1000, 1000],
  ] as const
).map(([batch, inChannels, outChannels, height, width]) => ({
  ...{ dtype: "f32", layout: "NCHW", batch, groups: 1, inChannels, outChannels, height, width },
  ...{ kernelHeight: 3, kernelWidth: 3, strideY: 1, strideX: 1, dilationY: 1, dilationX: 1 },
  ...{ top: 1, left: 1, bottom: 1, right: 1, outHeight: height, outWidth: width },
  ...{ bias: undefined, activation: undefined },
  input: elements("f32", batch * inChannels * height * width),
  filter: elements("f32", outChannels * inChannels * 9),
  output: elements("f32", batch * outChannels * height * width),
}));

/** Never used: nothing is divided. */
const others = {} as Pick<SegmentTools<never>, "kernelOf" | "run">;

describe("webgpu scratch", () => {
  function check<Problem, Shape extends object>(
    { operation, supports, variants, run, segments }: OperationEntry<OperationName, Problem, Shape>,
    problems: readonly Problem[],
  ): void {
    for (const forced of [undefined, ...variants!.rows.map(({ name }) => name)]) {
      const kernel: KernelDefinition<Problem> = {
        supports,
        run: (context, problem) => run(context, problem, forced),
      };
      const { scratchBound, longestWindow } = segments({ kernel, isForced: forced !== undefined, ...others });
      let most = 0;
      for (const features of devices)
        for (const problem of problems) {
          const bytes = mostScratch(kernel, features, problem);
          const bound = scratchBound(problem, longestWindow(problem));
          assert.isAtMost(bytes, bound, `${forced ?? operation}: ${JSON.stringify(problem)}`);
          most = Math.max(most, bytes);
        }
      // Or nothing would have been seen of kernels that need some.
      if (forced === undefined) assert.isAbove(most, 0, operation);
    }
  }

  it("of products is within what is looked for before they are enqueued, whatever the kernel", () =>
    check(gemm, products));

  it("of convolutions is, too", () => check(conv2d, convolutions));

  it("of attention is, too", () => check(attention, attentions));

  it("of reductions is, too", () => check(reduce, reductions));
});
