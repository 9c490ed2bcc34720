import type { Law } from "@backplane/conformance";
import { laws } from "@backplane/conformance";
import type { OperationName } from "@backplane/core";
import {
  compilesMuch,
  describeWebGpu,
  isAroundKernels,
  isOnWideIntegers,
  meetsMostWithFewest,
  soonCompiled,
} from "../laws-support.js";

/**
 * Operations whose laws are tested in one file, NAME.test.ts. Each takes a few minutes on a software adapter. Laws on
 * kernels that are on no operation are in all.test.ts.
 */
export type Family =
  | "attention"
  | "attention-gradient"
  | "convolutions"
  | "elements"
  | "images"
  | "normalization"
  | "places"
  | "products"
  | "reductions";

const familyOf: Readonly<Record<OperationName, Family>> = {
  attention: "attention",
  attentionGradient: "attention-gradient",
  conv2d: "convolutions",
  conv2dInputGradient: "convolutions",
  conv2dFilterGradient: "convolutions",
  unary: "elements",
  binary: "elements",
  select: "elements",
  map: "elements",
  random: "elements",
  pool2d: "images",
  pool2dGradient: "images",
  resize2d: "images",
  resize2dGradient: "images",
  softmax: "normalization",
  softmaxGradient: "normalization",
  normalize: "normalization",
  normalizeGradient: "normalization",
  copy: "places",
  gather: "places",
  scatter: "places",
  rope: "places",
  sort: "places",
  gemm: "products",
  batchedGemm: "products",
  quantizedGemm: "products",
  quantize: "products",
  reduce: "reductions",
  argReduce: "reductions",
  scan: "reductions",
};

/** All cases of the laws on the kernels of a family of operations, or of those that are on no single operation. */
export function describeLawsOnKernels(family: Family | "all"): void {
  const chosen = laws.filter((law) => !isAroundKernels(law) && fileOf(law) === family);
  const others = chosen.filter((law) => !compilesMuch(law));
  const large = chosen.filter(compilesMuch);
  for (const [group, how, options] of [
    [others.filter((law) => !isOnWideIntegers(law)), { runs: 5 }],
    [others.filter(isOnWideIntegers), { mode: "quick" }],
    // By the kernels that the backend chooses, and by those that compile soonest: each of them, in every form, is held
    // to the formula by the package's own tests.
    [large.filter(meetsMostWithFewest), { runs: 3 }],
    [large.filter((law) => !meetsMostWithFewest(law)), { runs: 3 }, soonCompiled],
  ] as const)
    if (group.length > 0) describeWebGpu(group, how, options);
}

function fileOf({ operation }: Law): Family | "all" {
  return operation === undefined ? "all" : familyOf[operation];
}
