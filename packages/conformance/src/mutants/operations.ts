import { accuracyMutants } from "./accuracy.js";
import { convolutionMutants } from "./convolution.js";
import { elementwiseMutants } from "./elementwise.js";
import { epilogueMutants } from "./epilogue.js";
import type { Mutant } from "./mutant.js";
import { productMutants } from "./products.js";
import { summingMutants } from "./summing.js";

/** Defects of kernels. */
export const operationMutants: readonly Mutant[] = [
  ...productMutants,
  ...convolutionMutants,
  ...epilogueMutants,
  ...summingMutants,
  ...elementwiseMutants,
  ...accuracyMutants,
];
