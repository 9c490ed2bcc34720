import type { Law } from "../law.js";
import { contractLaws } from "./contract.js";
import { operationLaws } from "./operations.js";

/** The whole suite: the laws of the operations, then those of the contract around them. */
export const laws: readonly Law[] = [...operationLaws, ...contractLaws];
