import { declaredText, judgePromise, observedText, signs } from "../format.js";
import type { ConformanceReport, NumericsReport } from "../report.js";
import { html, type Markup } from "./markup.js";

/** The backend's promises about arithmetic, next to the observations. */
export function numerics({ numerics }: ConformanceReport): Markup | undefined {
  if (numerics.length === 0) return undefined;
  return html`<section id="numerics"><h2>Numerics, declared and observed</h2>
<div class="scroll"><table>
<caption>A promise binds; where none is made, the same laws are tried all the same, and their outcome is held against nobody.</caption>
<thead><tr><th scope="col">Promise</th><th scope="col">Declared</th><th scope="col">Observed</th><th scope="col">Verdict</th><th scope="col">Laws</th></tr></thead>
<tbody>${numerics.map(row)}</tbody></table></div></section>`;
}

function row(promise: NumericsReport): Markup {
  const { status, text } = judgePromise(promise);
  return html`<tr><th scope="row">${promise.promise}</th><td>${declaredText(promise.declared)}</td><td>${observedText(promise)}</td><td class="${status}">${text}</td><td>${evidence(promise)}</td></tr>
`;
}

function evidence({ evidence }: NumericsReport): Markup | string {
  if (evidence.length === 0) return "";
  const held = evidence.filter((one) => one.held).length;
  return html`<details><summary>${held} of ${evidence.length} held</summary><ul>${evidence.map(
    ({ law, held, detail }) =>
      html`<li><span class="${held ? "kept" : "broken"}">${held ? signs.kept : signs.broken} ${held ? "held" : "did not hold"}</span>: ${law}${detail === null ? undefined : html`<br><span class="quiet">${detail}</span>`}</li>`,
  )}</ul></details>`;
}
