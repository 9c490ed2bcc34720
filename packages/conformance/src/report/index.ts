export { diffReports, isUnchanged, type RatioChange, type ReportDiff, type StatusChange } from "./diff.js";
export type { FailureReport, WrongValues } from "./failure.js";
export { formatCount, formatCounts, formatRatio, formatTime, signs, statuses } from "./format.js";
export { renderHtml } from "./html.js";
export { renderMarkdown } from "./markdown.js";
export {
  type Measurements,
  merged,
  type RatioHistogram,
  Recorder,
  ratioEnds,
  type ShapeCell,
  type ShapeCells,
  shapeAxes,
} from "./measurements.js";
export { parseReport } from "./parse.js";
export {
  buildReport,
  type ConformanceReport,
  type Environment,
  type LawReport,
  type LawStatus,
  lawReport,
  type NumericsReport,
  type OperationReport,
  type RunReport,
  type SubjectReport,
  type Totals,
} from "./report.js";
