export { diffReports, isUnchanged, type RatioChange, type ReportDiff, type StatusChange } from "./diff.js";
export type { FailureReport } from "./failure.js";
export { formatCount, formatCounts, formatRatio, formatTime, signs, statuses } from "./format.js";
export { renderHtml } from "./html.js";
export { renderMarkdown } from "./markdown.js";
export { parseReport } from "./parse.js";
export {
  buildReport,
  type ConformanceReport,
  type LawReport,
  lawReport,
  type NumericsReport,
  type OperationReport,
  type RunReport,
  type SubjectReport,
  type Totals,
} from "./report.js";
