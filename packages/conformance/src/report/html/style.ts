/** Colours, light and dark, and the rules for the page. Nothing is loaded from anywhere. */
export const style = `
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --line: #d8dde3; --text: #1b2027; --quiet: #57606b; --link: #1f5fbf;
  --kept: #17692e; --kept-back: #e3f3e8; --broken: #b3261e; --broken-back: #fce9e7;
  --unfinished: #7d5200; --unfinished-back: #fdf1d4; --skipped: #57606b; --skipped-back: #eceff2;
  --bar: #4c7fc4; --exact: #5f9e7a;
  --heat-0: #eaf1f9; --heat-1: #c9ddf2; --heat-2: #9dc1e6; --heat-3: #6a9fd4; --heat-4: #3570b3; --heat-5: #173f73;
  --ink-0: #10253d; --ink-1: #10253d; --ink-2: #10253d; --ink-3: #0b1a2b; --ink-4: #ffffff; --ink-5: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #101418; --panel: #181d23; --line: #313943; --text: #e3e8ee; --quiet: #9ca7b4; --link: #86b4f5;
    --kept: #6fd08c; --kept-back: #14301e; --broken: #ff938a; --broken-back: #411814;
    --unfinished: #ebbf5a; --unfinished-back: #362a0d; --skipped: #9ca7b4; --skipped-back: #232a32;
    --bar: #6a9be0; --exact: #6fae8a;
    --heat-0: #1a2735; --heat-1: #1d3a59; --heat-2: #225184; --heat-3: #3f79bb; --heat-4: #7db0ea; --heat-5: #c9e1fb;
    --ink-0: #dbe8f6; --ink-1: #dbe8f6; --ink-2: #e9f2fc; --ink-3: #ffffff; --ink-4: #0b1a2b; --ink-5: #0b1a2b;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 0.94rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main, body > header, body > footer { max-width: 72rem; margin: 0 auto; padding: 0 1.25rem; }
body > header { padding-top: 2rem; }
body > footer { padding-bottom: 2rem; color: var(--quiet); font-size: 0.87rem; }
a { color: var(--link); }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 0.75rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 0.5rem; overflow-wrap: anywhere; }
p { margin: 0 0 0.75rem; max-width: 48rem; }
.quiet, caption, .note { color: var(--quiet); font-size: 0.87rem; }
.over { margin: 0 0 0.25rem; color: var(--quiet); font-size: 0.87rem; letter-spacing: 0.02em; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code, pre, .values td { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 0.87em; }
pre {
  margin: 0.25rem 0 0.9rem; padding: 0.6rem 0.8rem; background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere;
}
.kept { color: var(--kept); } .broken { color: var(--broken); }
.unfinished { color: var(--unfinished); } .skipped { color: var(--skipped); }
.verdict { border-radius: 8px; padding: 0.85rem 1.1rem; border-left: 6px solid currentColor; }
.verdict strong { font-size: 1.2rem; display: block; }
.verdict p { color: var(--text); margin: 0.35rem 0 0; max-width: none; }
.verdict.kept, .cell.kept { background: var(--kept-back); }
.verdict.broken, .cell.broken { background: var(--broken-back); }
.verdict.unfinished, .cell.unfinished { background: var(--unfinished-back); }
.verdict.skipped, .cell.skipped { background: var(--skipped-back); }
.totals { display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; list-style: none; padding: 0; margin: 0.6rem 0 1.25rem; }
.totals b { font-variant-numeric: tabular-nums; }
.share { display: flex; height: 10px; border-radius: 5px; overflow: hidden; margin-top: 1rem; gap: 1px; }
.share span { background: currentColor; min-width: 3px; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 0 2rem; margin: 0; }
dl.facts div { display: grid; grid-template-columns: 9.5rem 1fr; gap: 0.5rem; padding: 0.28rem 0; border-bottom: 1px solid var(--line); }
dl.facts dt { color: var(--quiet); overflow-wrap: anywhere; } dl.facts dd { margin: 0; overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1.1rem; list-style: none; padding: 0; margin: 1.25rem 0 0; font-size: 0.93rem; }
.scroll { overflow-x: auto; margin-bottom: 0.9rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.93rem; }
caption { text-align: left; padding: 0 0 0.5rem; }
th, td { text-align: left; vertical-align: top; padding: 0.4rem 0.7rem; border-bottom: 1px solid var(--line); }
thead th { color: var(--quiet); font-weight: 600; font-size: 0.87rem; } thead th, thead td { border-bottom-width: 2px; }
tbody th { font-weight: 600; } thead th.number, tbody td.number { text-align: right; }
.matrix { border-collapse: separate; border-spacing: 4px; } .matrix th, .matrix td { border: 0; }
.matrix { table-layout: fixed; } .matrix thead th { padding: 0 0.7rem; }
.matrix th:first-child { width: 8.5rem; padding-left: 0; overflow-wrap: anywhere; }
.cell { border-radius: 6px; padding: 0.5rem 0.7rem; }
.cell b { display: block; } .cell b a { color: inherit; }
.cell small { display: block; color: var(--text); font-size: 0.82rem; font-variant-numeric: tabular-nums; }
.meter { display: block; height: 5px; border-radius: 3px; margin: 0.35rem 0 0.2rem; background: color-mix(in srgb, currentColor 18%, transparent); overflow: hidden; }
.meter i { display: block; height: 100%; background: currentColor; }
.failure { border: 1px solid var(--line); border-left: 4px solid var(--broken); border-radius: 6px; padding: 0.9rem 1.1rem; margin: 0 0 1rem; }
.failure h4 { font-size: 0.87rem; color: var(--quiet); margin: 0.6rem 0 0; font-weight: 600; }
.failure p { overflow-wrap: anywhere; max-width: none; }
.values { width: auto; margin-top: 0.25rem; } .values caption { white-space: nowrap; padding-bottom: 0.1rem; } .values td { text-align: right; } .values .first { background: var(--broken-back); color: var(--broken); font-weight: 700; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 28rem), 1fr)); gap: 1rem; }
figure { margin: 0; border: 1px solid var(--line); border-radius: 6px; padding: 0.7rem 0.9rem; break-inside: avoid; overflow-x: auto; }
figcaption { font-weight: 600; } figcaption span { color: var(--quiet); font-weight: 400; font-size: 0.87rem; display: block; }
figure svg { display: block; margin-top: 0.4rem; max-width: 100%; height: auto; }
svg text { font: 10px system-ui, sans-serif; fill: var(--quiet); }
svg .bar { fill: var(--bar); } svg .exact { fill: var(--exact); } svg .beyond { fill: var(--broken); }
svg .axis { stroke: var(--line); fill: none; } svg .limit { stroke: var(--broken); stroke-dasharray: 3 2; fill: none; }
.heat-0 { fill: var(--heat-0); background: var(--heat-0); } svg .on-heat-0 { fill: var(--ink-0); }
.heat-1 { fill: var(--heat-1); background: var(--heat-1); } svg .on-heat-1 { fill: var(--ink-1); }
.heat-2 { fill: var(--heat-2); background: var(--heat-2); } svg .on-heat-2 { fill: var(--ink-2); }
.heat-3 { fill: var(--heat-3); background: var(--heat-3); } svg .on-heat-3 { fill: var(--ink-3); }
.heat-4 { fill: var(--heat-4); background: var(--heat-4); } svg .on-heat-4 { fill: var(--ink-4); }
.heat-5 { fill: var(--heat-5); background: var(--heat-5); } svg .on-heat-5 { fill: var(--ink-5); }
.heat-x { fill: var(--broken); background: var(--broken); } svg .on-heat-x { fill: var(--page); font-weight: 700; }
.key { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; list-style: none; padding: 0; margin: 0 0 0.9rem; font-size: 0.87rem; color: var(--quiet); }
.key i { display: inline-block; width: 1em; height: 1em; border-radius: 2px; vertical-align: -0.12em; margin-right: 0.35em; border: 1px solid var(--line); }
.bars td.length { width: 40%; } .bars td.length i { display: block; height: 0.8rem; margin-top: 0.3rem; border-radius: 2px; background: var(--bar); min-width: 1px; }
details { margin-bottom: 0.5rem; } summary { cursor: pointer; padding: 0.25rem 0; } td details { margin: 0; } td summary { padding: 0; } td ul { padding-left: 1.2rem; margin: 0.4rem 0; }
summary span { color: var(--quiet); font-size: 0.87rem; }
.laws td { min-width: 8rem; } .laws small { display: block; color: var(--quiet); font-variant-numeric: tabular-nums; }
.changes li { overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body > header { padding-top: 1rem; } h1 { font-size: 1.4rem; }
  main, body > header, body > footer { padding-left: 0.8rem; padding-right: 0.8rem; }
  dl.facts { grid-template-columns: 1fr; } dl.facts div { grid-template-columns: 7.5rem 1fr; }
  th, td { padding: 0.35rem 0.45rem; } .cell { padding: 0.4rem 0.5rem; } .matrix th:first-child { width: 6.6rem; font-size: 0.78rem; }
  .matrix { border-spacing: 3px; } .plots { grid-template-columns: 1fr; }
}
@media print {
  :root {
    color-scheme: light; --page: #ffffff; --panel: #f6f7f9; --line: #c9cfd6; --text: #000000; --quiet: #444b54; --link: #000000;
    --kept: #17692e; --kept-back: #e3f3e8; --broken: #b3261e; --broken-back: #fce9e7;
    --unfinished: #7d5200; --unfinished-back: #fdf1d4; --skipped: #57606b; --skipped-back: #eceff2; --bar: #4c7fc4; --exact: #5f9e7a;
    --heat-0: #eaf1f9; --heat-1: #c9ddf2; --heat-2: #9dc1e6; --heat-3: #6a9fd4; --heat-4: #3570b3; --heat-5: #173f73;
    --ink-0: #10253d; --ink-1: #10253d; --ink-2: #10253d; --ink-3: #0b1a2b; --ink-4: #ffffff; --ink-5: #ffffff;
  }
  :root { font-size: 11px; } body { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  main, body > header, body > footer { max-width: none; padding: 0; } nav { display: none; }
  h2 { break-after: avoid; margin-top: 1.5rem; } tr, .failure, figure { break-inside: avoid; } thead { display: table-header-group; }
  .scroll { overflow: visible; } .plots { grid-template-columns: repeat(2, 1fr); } details::details-content { content-visibility: visible; }
}
`;
