import type { DType, OperationName } from "@backplane/core";
import {
  cellVerdict,
  contractTopics,
  formatCount,
  formatCounts,
  formatRatio,
  formatTime,
  plural,
  signs,
} from "../format.js";
import type { ConformanceReport, OperationReport } from "../report.js";
import { html, type Markup } from "./markup.js";

/** The verdicts on each operation in each element type, and on the contract around them. */
export function matrix(report: ConformanceReport): Markup {
  const { operations, laws } = report;
  const names = [...new Set(operations.map(({ operation }) => operation))];
  const dtypes = [...new Set(operations.map(({ dtype }) => dtype))];
  const cell = (name: OperationName, dtype: DType) => {
    const found = operations.find((one) => one.operation === name && one.dtype === dtype);
    if (found === undefined) return html`<td></td>`;
    const first = laws.findIndex(
      (law) => law.status === "broken" && law.operation === name && law.dtype === dtype,
    );
    return operationCell(found, first < 0 ? undefined : first);
  };
  return html`<section id="operations"><h2>Operations</h2>
<div class="scroll"><table class="matrix">
<caption>Laws per operation and element type. “Worst” is the largest error found, in parts of the tolerance: above 1 breaks a law. The bar shows the same.</caption>
<thead><tr><th scope="col">Operation</th>${dtypes.map((dtype) => html`<th scope="col">${dtype}</th>`)}</tr></thead>
<tbody>${names.map(
    (name) => html`<tr><th scope="row">${name}</th>${dtypes.map((dtype) => cell(name, dtype))}</tr>
`,
  )}</tbody></table></div>
${contract(report)}</section>`;
}

function operationCell(operation: OperationReport, failure: number | undefined): Markup {
  const { status, text } = cellVerdict(operation);
  const { kept, skipped, unfinished, broken, cases, worst, worstTight, kinds } = operation;
  const others = formatCounts({
    ...{ broken: 0, unfinished: status === "unfinished" ? 0 : unfinished },
    ...{ kept: status === "kept" ? 0 : kept, skipped },
  });
  const tried = kept + broken + unfinished > 0;
  return html`<td class="cell ${status}"><b>${failure === undefined ? text : html`<a href="#failure-${failure}">${text}</a>`}</b>
${worst === null ? undefined : html`<span class="meter" aria-hidden="true"><i style="width:${(100 * Math.min(1, worst)).toFixed(1)}%"></i></span>`}
${others === "" ? undefined : html`<small>${others}</small>`}${tried ? html`<small>${plural(cases, "case")}${worst === null ? undefined : html`, worst ${formatRatio(worst)}`}${worstTight === null ? undefined : html`, by the tight bound ${formatRatio(worstTight)}`}</small>` : undefined}
${kinds === null || kinds.missing.length === 0 || kinds.supported.length === 0 ? undefined : html`<small>without ${kinds.missing.join(", ")}</small>`}</td>`;
}

function contract(report: ConformanceReport): Markup | undefined {
  const topics = contractTopics(report);
  if (topics.length === 0) return undefined;
  return html`<div class="scroll"><table>
<caption>The contract around the operations.</caption>
<thead><tr><th scope="col">Topic</th><th scope="col">Laws</th><th scope="col" class="number">Cases</th><th scope="col" class="number">Time</th></tr></thead>
<tbody>${topics.map(
    ({
      topic,
      status,
      counts,
      cases,
      milliseconds,
    }) => html`<tr><th scope="row">${topic}</th><td class="${status}">${signs[status]} ${formatCounts(counts)}</td><td class="number">${formatCount(cases)}</td><td class="number">${formatTime(milliseconds)}</td></tr>
`,
  )}</tbody></table></div>`;
}
