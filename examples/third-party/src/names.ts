import type { OperationName } from "@backplane/core";

const product = "m n k a b c alpha beta transA transB lda ldb ldc bias activation dtype";
const convolution =
  "layout inputShape filterShape outputShape input filter bias activation output stride padding";
const attention = "batch heads kvHeads queryLength keyLength headSize q k v out";
const strides = "qStrides kStrides vStrides outStrides";

/** The arguments that each operation of this backend knows. */
const names: Readonly<Partial<Record<OperationName, string>>> = {
  gemm: product,
  batchedGemm: `${product} batch strideA strideB strideC`,
  conv2d: `${convolution} dilation groups dtype`,
  attention: `${attention} ${strides} scale causal window mask maskStrides maskDtype logSumExp dtype`,
  reduce: "kind shape axes input output dtype",
  unary: "kind n input output dtype",
  binary: "kind a b output n shapeA shapeB outputShape dtype",
};

export function argumentNames(operation: OperationName): readonly string[] {
  return names[operation]?.split(" ") ?? [];
}
