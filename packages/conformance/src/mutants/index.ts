import type { Mutant } from "../mutant.js";
import { contractMutants } from "./contract.js";
import { housekeepingMutants } from "./housekeeping.js";
import { losingMutants } from "./losing.js";
import { operationMutants } from "./operations.js";
import { recordingMutants } from "./recordings.js";
import { smallPrintMutants } from "./small-print.js";

export type { Defect, Mutant } from "../mutant.js";

/** Backends that are wrong on purpose, one defect each. The suite must reject every one. */
export const mutants: readonly Mutant[] = [
  ...operationMutants,
  ...contractMutants,
  ...smallPrintMutants,
  ...housekeepingMutants,
  ...losingMutants,
  ...recordingMutants,
];
