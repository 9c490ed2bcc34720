import type { ReportDiff } from "./diff.js";
import { verdictOf } from "./format.js";
import { accuracy } from "./html/accuracy.js";
import { changes } from "./html/changes.js";
import { failures } from "./html/failures.js";
import { header } from "./html/header.js";
import { allLaws } from "./html/laws.js";
import { html, Markup } from "./html/markup.js";
import { matrix } from "./html/matrix.js";
import { numerics } from "./html/numerics.js";
import { distributions, shapesTried } from "./html/plots.js";
import { style } from "./html/style.js";
import { times } from "./html/times.js";
import type { ConformanceReport } from "./report.js";

/**
 * Renders a report as one HTML page that needs nothing else: no script, style sheet or picture. If `diff` is
 * given, shows the changes since an earlier report.
 */
export function renderHtml(report: ConformanceReport, diff?: ReportDiff): string {
  const sections: readonly (readonly [id: string, title: string, content: Markup | undefined])[] = [
    ["changes", "Changes", diff === undefined ? undefined : changes(diff)],
    ["operations", "Operations", matrix(report)],
    ["failures", "Failures", failures(report)],
    ["numerics", "Numerics", numerics(report)],
    ["accuracy", "Accuracy", accuracy(report)],
    ["errors", "Error / tolerance", distributions(report)],
    ["shapes", "Shapes tried", shapesTried(report)],
    ["times", "Time", times(report)],
    ["laws", "All laws", allLaws(report)],
  ];
  const present = sections.filter(([, , content]) => content !== undefined);
  const title = `${report.subject.name}: ${verdictOf(report).headline}`;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="@backplane/conformance ${report.suiteVersion}">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${new Markup(style)}</style>
</head>
<body>
${header(report)}
<main>
<nav aria-label="Sections"><ul>${present.map(([id, name]) => html`<li><a href="#${id}">${name}</a></li>`)}</ul></nav>
${present.map(
  ([, , content]) => html`${content}
`,
)}</main>
<footer><p>Written by @backplane/conformance ${report.suiteVersion}. The same report as JSON has everything that is shown here.</p></footer>
</body>
</html>
`.text;
}
