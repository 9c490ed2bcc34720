import type { WrongValues } from "../../workspace.js";
import type { FailureReport } from "../failure.js";
import { replayCommand, shortReason, signs } from "../format.js";
import type { ConformanceReport, LawReport } from "../report.js";
import { html, type Markup } from "./markup.js";

/** Every law that was broken, with all that is needed to see it again. */
export function failures({ laws }: ConformanceReport): Markup | undefined {
  if (!laws.some(({ status }) => status === "broken")) return undefined;
  // Cells of the matrix link here by the place of a law in the report.
  return html`<section id="failures"><h2>Failures</h2>
${laws.map((law, i) => (law.status === "broken" ? failureOf(law, i) : undefined))}</section>`;
}

function failureOf({ id, reason, failure }: LawReport, index: number): Markup {
  return html`<article class="failure" id="failure-${index}"><h3><span class="broken">${signs.broken}</span> ${id}</h3>
${failure === null ? html`<p>${reason ?? "No more is known."}</p>` : details(failure)}</article>
`;
}

function details(failure: FailureReport): Markup {
  const { guard, values } = failure;
  return html`<p>${shortReason(failure)}</p>
${guard === null || guard === failure.reason ? undefined : html`<h4>Overwritten</h4><p>${guard}</p>`}
${values === null ? undefined : valueTable(values)}
${failure.case === null ? undefined : html`<h4>The smallest case found</h4><pre><code>${failure.case}</code></pre>`}
${failure.paste === null ? undefined : html`<h4>In a test</h4><pre><code>${failure.paste}</code></pre>`}
<h4>Again</h4><pre><code>${replayCommand(failure.replay)}</code></pre>
<details><summary>As printed</summary><pre>${failure.message}</pre></details>`;
}

function valueTable({ first, from, got, expected }: WrongValues): Markup {
  const row = (name: string, list: readonly string[]) =>
    html`<tr><th scope="row">${name}</th>${list.map((text, i) => html`<td${from + i === first ? firstWrong : undefined}>${text}</td>`)}</tr>`;
  return html`<div class="scroll"><table class="values"><caption>Round the first wrong one</caption>
<thead><tr><th scope="col">Result</th>${expected.map((_, i) => html`<th scope="col" class="number">${from + i}</th>`)}</tr></thead>
<tbody>${row("got", got)}${row("expected", expected)}</tbody></table></div>`;
}

const firstWrong = html` class="first"`;
