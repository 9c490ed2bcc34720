export type { BackendFacts, LawResult } from "./bench.js";
export * from "./compare/index.js";
export type { ReferenceMemory } from "./elements.js";
export { type Evaluated, evaluateCall, timedCalls } from "./evaluate-call.js";
export { binaryFunctions, unaryFunctions } from "./functions.js";
export {
  type ForAllOptions,
  type ForEachOptions,
  type Grade,
  type Law,
  type LawContext,
  LawFailure,
  lawId,
  type NumericsPromise,
  type Replay,
} from "./law.js";
export { laws } from "./laws/index.js";
export { type Mutant, mutants } from "./mutants/index.js";
export type { TimedCall } from "./ops/operation.js";
export { grades, type Mode, modes, type SuiteOptions } from "./options.js";
export {
  createReferenceBackend,
  loseReferenceDevice,
  ReferenceDriver,
  referenceKernels,
} from "./reference.js";
export {
  buildReport,
  type ConformanceReport,
  diffReports,
  type Environment,
  type FailureReport,
  isUnchanged,
  type LawReport,
  type LawStatus,
  type NumericsReport,
  type OperationReport,
  parseReport,
  type RatioChange,
  type RatioHistogram,
  type ReportDiff,
  type RunReport,
  ratioEnds,
  renderHtml,
  renderMarkdown,
  type ShapeCell,
  type ShapeCells,
  type StatusChange,
  type SubjectReport,
  shapeAxes,
  type Totals,
  type WrongValues,
} from "./report/index.js";
export { type MemorySample, memoryGauges, type Trend, trendOf } from "./soak/flatness.js";
export { mebibytes, type SoakOptions, type SoakReport, soak } from "./soak/soak.js";
export type { Tally } from "./soak/tally.js";
export type { WalkLimits } from "./soak/walk.js";
export { subjectsIn } from "./subjects.js";
export {
  checkCase,
  describeBackend,
  type Listeners,
  type Progress,
  type Runner,
  runLaws,
  runSuite,
  type Subject,
  type SuiteOutcome,
} from "./suite.js";
export { suiteVersion } from "./version.js";
