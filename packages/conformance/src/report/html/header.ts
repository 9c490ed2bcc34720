import { facts, formatCount, signs, statuses, verdictOf } from "../format.js";
import type { ConformanceReport } from "../report.js";
import { html, type Markup } from "./markup.js";

/** Name, verdict, totals and everything that identifies the run. */
export function header(report: ConformanceReport): Markup {
  const { totals } = report;
  const verdict = verdictOf(report);
  const present = statuses.filter((status) => totals[status] > 0);
  return html`<header>
<p class="over">Backplane conformance report</p>
<h1>${report.subject.name}</h1>
<div class="verdict ${verdict.status}"><strong>${signs[verdict.status]} ${verdict.headline}</strong>${verdict.remarks.map((remark) => html`<p>${remark}</p>`)}</div>
<div class="share" aria-hidden="true">${present.map((status) => html`<span class="${status}" style="flex-grow:${totals[status]}"></span>`)}</div>
<ul class="totals">${present.map((status) => html`<li class="${status}">${signs[status]} <b>${formatCount(totals[status])}</b> ${status}</li>`)}<li class="quiet"><b>${formatCount(totals.laws)}</b> laws, <b>${formatCount(totals.cases)}</b> cases</li></ul>
<dl class="facts">${facts(report).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
</header>`;
}
