import type { Mutant } from "../mutant.js";
import { everyOperation } from "../ops/index.js";
import { accuracyMutants } from "./accuracy.js";
import { builder } from "./build.js";

/** Defects of kernels. */
export const operationMutants: readonly Mutant[] = [
  ...everyOperation.flatMap(({ mutants }) => mutants(builder)),
  ...accuracyMutants(builder),
];
