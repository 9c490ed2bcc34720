import type { Law } from "../law.js";
import { accuracyLaws } from "./accuracy.js";
import { attentionLaws } from "./attention.js";
import { batchedGemmLaws } from "./batched-gemm.js";
import { binaryLaws } from "./binary.js";
import { conv2dLaws } from "./conv2d.js";
import { gemmLaws } from "./gemm.js";
import { numericsLaws } from "./numerics.js";
import { reduceLaws } from "./reduce.js";
import { supportsLaws } from "./supports.js";
import { unaryLaws } from "./unary.js";

/** Laws of the seven operations, of the declared accuracy and numerics, and of `supports()`. */
export const operationLaws: readonly Law[] = [
  ...gemmLaws,
  ...batchedGemmLaws,
  ...conv2dLaws,
  ...attentionLaws,
  ...reduceLaws,
  ...unaryLaws,
  ...binaryLaws,
  ...accuracyLaws,
  ...numericsLaws,
  ...supportsLaws,
];
