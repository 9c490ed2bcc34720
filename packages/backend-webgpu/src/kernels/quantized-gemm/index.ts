import { floatTypes } from "@backplane/core";
import type { OperationEntry } from "../operation.js";
import { type Problem, runQuantizedGemm } from "./quantized-gemm.js";
import { segments } from "./segments.js";

/**
 * Few rows of A are multiplied by weights as they are dequantized in registers, so that only the bytes of B come from
 * memory. For more rows the weights of B, or of parts of it, are written to scratch, and gemm multiplies them.
 */
export const quantizedGemm: OperationEntry<"quantizedGemm", Problem> = {
  operation: "quantizedGemm",
  supports: [{ dtype: floatTypes, scaleType: floatTypes, bias: true, activation: true }],
  run: (context, problem) => runQuantizedGemm(context, problem),
  segments: () => segments,
};
