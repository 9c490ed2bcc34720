import type { DType } from "@backplane/core";
import { formatCounts, formatRatio, formatTime, plural, signs, statuses } from "../format.js";
import type { ConformanceReport, LawReport } from "../report.js";
import { html, type Markup } from "./markup.js";

/** Every law that was chosen, by topic; folded, since there are hundreds. */
export function allLaws({ laws }: ConformanceReport): Markup | undefined {
  if (laws.length === 0) return undefined;
  const topics = [...new Set(laws.map(({ topic }) => topic))];
  return html`<section id="laws"><h2>All laws</h2>
${topics.map((topic) =>
  topicOf(
    topic,
    laws.filter((law) => law.topic === topic),
  ),
)}</section>`;
}

function topicOf(topic: string, laws: readonly LawReport[]): Markup {
  const dtypes = [...new Set(laws.map(({ dtype }) => dtype))];
  const names = [...new Set(laws.map(({ name }) => name))];
  const count = (status: LawReport["status"]) => laws.filter((law) => law.status === status).length;
  const counts = {
    kept: count("kept"),
    broken: count("broken"),
    skipped: count("skipped"),
    unfinished: count("unfinished"),
  };
  const status = statuses.find((one) => counts[one] > 0)!;
  const cell = (name: string, dtype: DType | null) => {
    const law = laws.find((one) => one.name === name && one.dtype === dtype);
    return law === undefined ? html`<td></td>` : lawCell(law);
  };
  return html`<details><summary><b class="${status}">${signs[status]}</b> ${topic} <span>${formatCounts(counts)}</span></summary>
<div class="scroll"><table class="laws"><caption>Laws of ${topic}</caption>
<thead><tr><th scope="col">Law</th>${dtypes.map((dtype) => html`<th scope="col">${dtype ?? "outcome"}</th>`)}</tr></thead>
<tbody>${names.map(
    (name) => html`<tr><td>${name}</td>${dtypes.map((dtype) => cell(name, dtype))}</tr>
`,
  )}</tbody></table></div></details>
`;
}

function lawCell({ status, reason, observed, cases, worst, milliseconds }: LawReport): Markup {
  const measured = worst === null ? "" : `, worst ${formatRatio(worst)}`;
  const tried =
    status === "skipped" && cases === 0
      ? ""
      : `${plural(cases, "case")}${measured}, ${formatTime(milliseconds)}`;
  return html`<td><span class="${status}">${signs[status]} ${status}</span>${tried === "" ? undefined : html`<small>${tried}</small>`}${reason === null ? undefined : html`<small>${reason}</small>`}${observed === null ? undefined : html`<small>all the same, it ${observed}</small>`}</td>`;
}
