export { type ForAllOptions, type Law, type LawContext, LawFailure, lawId, type Replay } from "./law.js";
export { laws } from "./laws/index.js";
export { type Mutant, mutants } from "./mutants/index.js";
export {
  createReferenceBackend,
  ReferenceDriver,
  type ReferenceMemory,
  referenceKernels,
} from "./reference.js";
export {
  describeBackend,
  type LawResult,
  type Runner,
  runLaws,
  type Subject,
  type SuiteOptions,
} from "./suite.js";
