import { formatArguments, formatUnits, judgeUnits, rangeText } from "../format.js";
import type { AccuracyReport, ConformanceReport } from "../report.js";
import { html, type Markup } from "./markup.js";

/** The units that the backend declares of each function, next to the largest errors seen. */
export function accuracy({ accuracy }: ConformanceReport): Markup | undefined {
  if (accuracy.length === 0) return undefined;
  return html`<section id="accuracy"><h2>Accuracy, declared and observed</h2>
<div class="scroll"><table>
<caption>Largest errors in f32, in units in the last place; 0.5 is correct rounding. Where nothing is declared, only the least bounds of all backends hold.</caption>
<thead><tr><th scope="col">Function</th><th scope="col">Arguments</th><th scope="col">Declared</th><th scope="col">Observed</th><th scope="col">At</th><th scope="col">Verdict</th></tr></thead>
<tbody>${accuracy.map(rows)}</tbody></table></div></section>`;
}

function rows({ kind, ranges }: AccuracyReport): readonly Markup[] {
  return ranges.map((range) => {
    const { status, text } = judgeUnits(range);
    return html`<tr><th scope="row">${kind}</th><td>${rangeText(range)}</td><td>${formatUnits(range.declared)}</td><td>${formatUnits(range.observed)}</td><td>${formatArguments(range)}</td><td class="${status}">${text}</td></tr>
`;
  });
}
