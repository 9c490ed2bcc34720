export type { BackendFacts, LawResult, LawStatus } from "./bench.js";
export * from "./compare/index.js";
export type { ReferenceMemory } from "./elements.js";
export type { Environment } from "./environment.js";
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
export {
  type RatioHistogram,
  ratioEnds,
  type ShapeCell,
  type ShapeCells,
  shapeAxes,
} from "./measurements.js";
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
  type FailureReport,
  isUnchanged,
  type LawReport,
  type NumericsReport,
  type OperationReport,
  parseReport,
  type RatioChange,
  type ReportDiff,
  type RunReport,
  renderHtml,
  renderMarkdown,
  type StatusChange,
  type SubjectReport,
  type Totals,
} from "./report/index.js";
export { type MemorySample, memoryGauges, type Trend, trendOf } from "./soak/flatness.js";
export { mebibytes, type SoakOptions, type SoakReport, soak } from "./soak/soak.js";
export type { Tally } from "./soak/tally.js";
export type { WalkLimits } from "./soak/walk.js";
export { type Subject, subjectsIn } from "./subjects.js";
export {
  checkCase,
  describeBackend,
  type Listeners,
  type Progress,
  type Runner,
  runLaws,
  runSuite,
  type SuiteOutcome,
} from "./suite.js";
export { suiteVersion } from "./version.js";
export type { WrongValues } from "./workspace.js";
