import { createWebGpuBackend, type WebGpuBackend, type WebGpuOptions } from "@backplane/backend-webgpu";
import { describeBackend, type Law, type SuiteOptions } from "@backplane/conformance";

/** Their kernels compile soon everywhere. */
const small: readonly string[] = ["unary", "binary", "gather", "select", "rope", "scatter"];

/** Whether a law is on one of the operations whose kernels software adapters compile soon. */
export function isOnSmallKernels({ operation }: Law): boolean {
  return operation !== undefined && small.includes(operation);
}

const many: readonly string[] = ["resources", "reach", "stateful", "supports"];

/** Whether a law calls many operations, in many forms, or one of them very often. */
export function isOnManyCalls({ topic }: Law): boolean {
  return many.includes(topic);
}

/** Whether a law is on what is around all kernels, such as memory, order, recordings and loss. */
export function isAroundKernels(law: Law): boolean {
  return law.operation === undefined && !isOnManyCalls(law);
}

/** One kernel of these takes lavapipe half a minute and more. */
const slowest: readonly string[] = ["attention", "attentionGradient", "normalize", "normalizeGradient"];

/** Whether a law is on what is around the kernels of one operation, whose kernels compile soon everywhere. */
function isAroundSmallKernels({ topic, operation }: Law): boolean {
  // In place, a law on `binary` needs two kernels for each of its kinds.
  if (topic === "in-place") return operation === "select";
  return operation === "binary" && topic !== "binary" && topic !== "accuracy";
}

/** Whether a law is worth its time in every run: what is around the kernels of all other operations is the same. */
export function isEachTime(law: Law): boolean {
  return !isOnManyCalls(law) && (isAroundKernels(law) || isAroundSmallKernels(law));
}

/**
 * Whether a law is worth its time on every adapter. What a compiler, a driver and its limits can do wrong shows in one
 * law on each operation, and in the functions, which each of them computes in its own way.
 */
export function isOnEveryAdapter(law: Law): boolean {
  return law.topic === "accuracy" || (meetsMostWithFewest(law) && !slowest.includes(law.topic));
}

/** Nearly every further case of these needs a kernel of its own, which takes a software adapter seconds to compile. */
export function compilesMuch({ topic }: Law): boolean {
  const topics = [
    ...["conv2d", "conv2dInputGradient", "conv2dFilterGradient", "attention", "attentionGradient"],
    ...["normalize", "normalizeGradient", "map", "quantizedGemm"],
  ];
  return topics.includes(topic);
}

/** Whether a law is on integers of 32 bits: their kernels are those of f32 but for the type in their texts. */
export function isOnWideIntegers({ dtype }: Law): boolean {
  return dtype === "i32" || dtype === "u32";
}

const broadest: Readonly<Record<string, string | readonly string[]>> = {
  unary: "relu: stays within its error bound",
  binary: [
    "broadcasts as NumPy does",
    "arithmetic broadcast as NumPy does",
    "comparisons broadcast as NumPy does",
  ],
  gather: "brings the element of each index, and 0 for those out of range",
  scatter: "combines each update with its element, in order, and leaves the others",
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

/** Whether a law on an operation is one of those that meet the most mistakes with the fewest kernels. */
export function meetsMostWithFewest({ topic, name }: Law): boolean {
  return [broadest[topic] ?? "is exact on whole numbers"].flat().includes(name);
}

/** The variants of operations with large kernels that compile soonest. */
export const soonCompiled: WebGpuOptions = {
  variants: {
    ...{ conv2d: "direct_4x128", conv2dFilterGradient: "direct" },
    ...{ attention: "tiled_16x32", attentionGradient: "tiled_16x32x16" },
  },
};

/** No backend is skipped where it is missing: a machine on which the suite says nothing about it has not tested it. */
export function describeWebGpu(
  chosen: readonly Law[],
  how: Pick<SuiteOptions, "mode" | "runs">,
  options: WebGpuOptions = {},
): void {
  describeBackend(
    {
      name: "WebGPU",
      create: () => createWebGpuBackend(options),
      loseDevice: (backend) => (backend as WebGpuBackend).loseDevice(),
      options: { laws: chosen, ...how },
    },
    globalThis,
  );
}
