import { formatCount, formatTime } from "../format.js";
import type { ConformanceReport } from "../report.js";
import { html, type Markup } from "./markup.js";

/** How long the laws of each operation took: cases, the oracle and the checks included. */
export function times({ operations }: ConformanceReport): Markup | undefined {
  const timed = operations.filter(({ milliseconds, cases }) => milliseconds > 0 && cases > 0);
  if (timed.length === 0) return undefined;
  const longest = Math.max(...timed.map(({ milliseconds }) => milliseconds));
  return html`<section id="times"><h2>Time per operation</h2>
<div class="scroll"><table class="bars">
<caption>Of the laws: computing what is expected, and comparing, included. No measure of the backend’s speed.</caption>
<thead><tr><th scope="col">Operation</th><th scope="col">Type</th><th scope="col" class="number">Time</th><th scope="col" class="number">Cases</th><th scope="col" class="number">Per case</th><td></td></tr></thead>
<tbody>${timed.map(
    ({ operation, dtype, milliseconds, cases }) =>
      html`<tr><th scope="row">${operation}</th><td>${dtype}</td><td class="number">${formatTime(milliseconds)}</td><td class="number">${formatCount(cases)}</td><td class="number">${perCase(milliseconds / cases)}</td><td class="length" aria-hidden="true"><i style="width:${((100 * milliseconds) / longest).toFixed(1)}%"></i></td></tr>
`,
  )}</tbody></table></div></section>`;
}

function perCase(milliseconds: number): string {
  return milliseconds < 10 ? `${milliseconds.toPrecision(2)} ms` : formatTime(milliseconds);
}
