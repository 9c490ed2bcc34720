import type { Accuracy, OperationName, OperationProblems } from "@backplane/core";
import { argReduce } from "./arg-reduce/index.js";
import { attention } from "./attention/index.js";
import { attentionGradient } from "./attention-gradient/index.js";
import { binary } from "./binary/index.js";
import { conv2d } from "./conv2d/index.js";
import { conv2dFilterGradient } from "./conv2d-filter-gradient/index.js";
import { conv2dInputGradient } from "./conv2d-input-gradient/index.js";
import { copy } from "./copy/index.js";
import { gather } from "./gather/index.js";
import { gemm } from "./gemm/index.js";
import type { CpuMemory, CpuOperation, Features, OperationVariants } from "./kernel.js";
import { map } from "./map/index.js";
import { normalize } from "./normalize/index.js";
import { normalizeGradient } from "./normalize-gradient/index.js";
import { pool2d } from "./pool2d/index.js";
import { pool2dGradient } from "./pool2d-gradient/index.js";
import { quantize } from "./quantize/index.js";
import { quantizedGemm } from "./quantized-gemm/index.js";
import { random } from "./random/index.js";
import { reduce } from "./reduce/index.js";
import { resize2d } from "./resize2d/index.js";
import { resize2dGradient } from "./resize2d-gradient/index.js";
import { rope } from "./rope/index.js";
import { scan } from "./scan/index.js";
import { scatter } from "./scatter/index.js";
import { select } from "./select/index.js";
import { softmax } from "./softmax/index.js";
import { softmaxGradient } from "./softmax-gradient/index.js";
import { sort } from "./sort/index.js";
import { unary } from "./unary/index.js";

export { type GemmVariant, gemmVariants } from "./gemm/index.js";

export type CpuOperations = {
  readonly [Name in OperationName]?: CpuOperation<OperationProblems<CpuMemory>[Name]>;
};

/** Every operation that this backend has. A new one is a folder here and a line in this table. */
const operations: CpuOperations = {
  gemm,
  batchedGemm: gemm,
  conv2d,
  conv2dInputGradient,
  conv2dFilterGradient,
  attention,
  reduce,
  unary,
  binary,
  softmax,
  softmaxGradient,
  random,
  normalize,
  normalizeGradient,
  copy,
  gather,
  argReduce,
  pool2d,
  resize2d,
  pool2dGradient,
  resize2dGradient,
  map,
  select,
  quantizedGemm,
  quantize,
  scan,
  sort,
  rope,
  scatter,
  attentionGradient,
};

/** The operations without the types of their problems, which lists of them lose. */
const entries = Object.entries(operations) as readonly (readonly [string, CpuOperation<unknown>])[];

/** The variant to use for some operations, by name. The one for gemm also applies to batchedGemm. */
export interface ForcedVariants {
  readonly gemm?: string;
}

/** The variants of each operation that has any. One that is listed under two names goes by the first. */
export const operationVariants: ReadonlyMap<keyof ForcedVariants, OperationVariants<unknown>> = new Map(
  entries.flatMap(([name, { variants }], i) =>
    variants === undefined || entries.findIndex(([, other]) => other.variants === variants) < i
      ? []
      : [[name as keyof ForcedVariants, variants]],
  ),
);

/** Returns the operations with only those kernels among which features and forced variants leave a choice. */
export function cpuOperations(forced: ForcedVariants, features: Features): CpuOperations {
  const limited = new Map<OperationVariants<unknown>, CpuOperation<unknown>>();
  for (const [name, variants] of operationVariants)
    limited.set(variants, variants.limited(features, forced[name]));
  return Object.fromEntries(
    entries.map(([name, operation]) => [
      name,
      operation.variants === undefined ? operation : limited.get(operation.variants),
    ]),
  );
}

/** What the operations declare together. */
export const accuracy: Accuracy = Object.fromEntries(
  entries.flatMap(([name, { accuracy }]) => (accuracy === undefined ? [] : [[name, accuracy]])),
);
