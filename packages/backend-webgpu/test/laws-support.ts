import { createWebGpuBackend, type WebGpuBackend, type WebGpuOptions } from "@backplane/backend-webgpu";
import { describeBackend, type Law, laws } from "@backplane/conformance";
import type { ComputeBackend } from "@backplane/core";

/** Their kernels compile soon everywhere. */
const small: readonly string[] = ["unary", "binary", "gather", "select", "rope", "scatter"];
const many: readonly string[] = ["resources", "reach", "stateful", "supports"];

/** Whether a law is on one of the operations whose kernels software adapters take long to compile. */
export function isOnLargeKernels({ operation }: Law): boolean {
  return operation !== undefined && !small.includes(operation);
}

/** Software adapters take a while for a case of these, so each gets one law of its own in every run. */
const briefly: readonly string[] = [
  "conv2dInputGradient",
  "conv2dFilterGradient",
  "softmax",
  "softmaxGradient",
  "random",
  "copy",
  "argReduce",
  "pool2d",
  "resize2d",
  "pool2dGradient",
  "resize2dGradient",
  "map",
  "quantizedGemm",
  "quantize",
  "scan",
  "sort",
];

/** Whether a law is worth its time in every run, on every adapter. */
export function isEverywhere(law: Law): boolean {
  return !isOnLargeKernels(law) || (briefly.includes(law.topic) && meetsMostWithFewest(law));
}

/** Whether a law calls many operations, in many forms, or one of them very often. */
export function isOnManyCalls({ topic }: Law): boolean {
  return many.includes(topic);
}

/** Nearly every further case of these needs a kernel of its own, which takes a software adapter seconds to compile. */
export function compilesMuch({ topic }: Law): boolean {
  const topics = [
    ...["conv2d", "conv2dInputGradient", "conv2dFilterGradient", "attention", "attentionGradient"],
    ...["normalize", "normalizeGradient", "map"],
  ];
  return topics.includes(topic);
}

const broadest: Readonly<Record<string, string>> = {
  attention: "stays within the error bound",
  reduce: "sum: is exact on whole numbers",
  softmax: "softmax: stays within the error bound",
  softmaxGradient: "softmax: is exact on whole numbers",
  normalize: "layer: counts every element on larger shapes",
  normalizeGradient: "layer: adds up whole numbers exactly",
  random: "bits: is exact at any place of a sequence",
  copy: "keeps all bits, and all that lies between and around the results",
  argReduce: "argMax: finds the first extremum",
  pool2d: "max: stays within the error bound",
  resize2d: "bilinear: stays within the error bound",
  pool2dGradient: "max: stays within the error bound",
  resize2dGradient: "bilinear: stays within the error bound",
  quantize: "stores the nearest numbers",
  sort: "puts elements in order, and keeps that of equal ones",
  map: "reads every input before an output that lies over it is written",
};

/** Whether a law on an operation meets the most mistakes with the fewest kernels. */
export function meetsMostWithFewest({ topic, name }: Law): boolean {
  return name === (broadest[topic] ?? "is exact on whole numbers");
}

/** The variants of operations with large kernels that compile soonest. */
export const soonCompiled: WebGpuOptions = {
  variants: { conv2d: "direct_4x128", attention: "tiled_16x32" },
};

/** No backend is skipped where it is missing: a machine on which the suite says nothing about it has not tested it. */
export function describeWebGpu(chosen: readonly Law[], runs: number, options: WebGpuOptions = {}): void {
  describeBackend(
    {
      name: "WebGPU",
      create: () => createWebGpuBackend(options),
      loseDevice: (backend) => (backend as WebGpuBackend).loseDevice(),
      options: { laws: chosen, runs },
    },
    globalThis,
  );
}

/** Which laws show what a variant of an operation does. */
export const topics: Readonly<Record<string, readonly string[]>> = {
  gemm: ["gemm", "batchedGemm"],
  conv2d: ["conv2d"],
  attention: ["attention"],
  reduce: ["reduce"],
};

/**
 * Larger shapes are left out: they lead across the thresholds between variants, and here is only one.
 */
export function lawsOn(operations: readonly string[]): readonly Law[] {
  const wanted = operations.flatMap((operation) => topics[operation]!);
  return laws.filter(({ topic, name }) => wanted.includes(topic) && !name.includes("larger shapes"));
}

export function describeVariant(
  name: string,
  create: () => ComputeBackend,
  chosen: readonly Law[],
  runs: number,
): void {
  describeBackend({ name, create, options: { laws: chosen, runs } }, globalThis);
}
