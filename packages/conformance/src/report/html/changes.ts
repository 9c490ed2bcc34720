import type { ReportDiff, StatusChange } from "../diff.js";
import { formatMoment, formatRatio, signs } from "../format.js";
import { type Content, html, type Markup } from "./markup.js";

/** The changes since an earlier report. */
export function changes(diff: ReportDiff): Markup {
  const { before, after, remarks, ratios } = diff;
  const statuses = [
    list("Broken now", diff.broken.map(change)),
    list("Fixed", diff.fixed.map(change)),
    list("No longer tried to the end", diff.lost.map(change)),
    list("Tried and kept now", diff.gained.map(change)),
  ];
  const laws = [
    list("Laws that were not in the earlier report", diff.added),
    list("Laws of the earlier report that are not in this one", diff.missing),
  ];
  const isSame = ratios.length === 0 && [...statuses, ...laws].every((one) => one === undefined);
  return html`<section id="changes" class="changes"><h2>Changes</h2>
<p>From ${before.name}, ${formatMoment(before.startedAt)}, to ${after.name}, ${formatMoment(after.startedAt)}.</p>
${remarks.length === 0 ? undefined : html`<ul>${remarks.map((remark) => html`<li>${remark}</li>`)}</ul>`}
${isSame ? html`<p>Nothing has changed.</p>` : statuses}${ratios.length === 0 ? undefined : ratioTable(diff)}${laws}</section>`;
}

/** Longer lists are folded. */
const most = 12;

function list(title: string, entries: readonly Content[]): Markup | undefined {
  if (entries.length === 0) return undefined;
  const heading = `${title} (${entries.length})`;
  const items = html`<ul>${entries.map((entry) => html`<li>${entry}</li>`)}</ul>`;
  if (entries.length <= most) return html`<h3>${heading}</h3>${items}`;
  return html`<details><summary><b>${heading}</b></summary>${items}</details>`;
}

function change({ law, before, after, reason }: StatusChange): Markup {
  return html`<span class="${after}">${signs[after]} ${after}</span>, was ${before}: ${law}${reason === null ? undefined : html`<br><span class="quiet">${reason}</span>`}`;
}

function ratioTable({ ratios }: ReportDiff): Markup {
  return html`<div class="scroll"><table><caption>Error / tolerance at least doubled or halved</caption>
<thead><tr><th scope="col">Law</th><th scope="col" class="number">Before</th><th scope="col" class="number">After</th></tr></thead>
<tbody>${ratios.map(
    ({
      law,
      before,
      after,
    }) => html`<tr><td>${law}</td><td class="number">${formatRatio(before)}</td><td class="number">${formatRatio(after)}</td></tr>
`,
  )}</tbody></table></div>`;
}
