import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { commandLine, readResults } from "./command-line.js";
import { drawings } from "./drawings.js";
import { markdownTables, tableEnd, tableStart, withTables } from "./markdown.js";
import type { Report } from "./result.js";

const usage = `Draws the results of the benchmark: node bench/dist/plots.js RESULTS.json [...]

  --out FOLDER   where the SVG files go; default docs/plots
  --into FILE    writes only the tables of results, into this Markdown file, between the lines
                 ${tableStart} and ${tableEnd}
  --without NAME leaves this configuration out of the tables; may be repeated
  --help         this text

One file for each curve there is ("--sweep"), and one that compares ours with the anchors. Of two
results for the same case, that of the file named last counts.
`;

const { out, into, without, paths } = commandLine(usage, () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      out: { type: "string", default: "docs/plots" },
      into: { type: "string" },
      without: { type: "string", multiple: true, default: [] },
      help: { type: "boolean", default: false },
    },
  });
  if (!values.help && positionals.length === 0) throw new Error("which files have the results?");
  return { ...values, paths: positionals };
});

const reports = paths.map((path) => readResults<Report>(path, "copyBandwidth"));
if (into === undefined) {
  mkdirSync(out, { recursive: true });
  for (const [name, svg] of drawings(reports)) write(join(out, `${name}.svg`), svg);
} else write(into, withTables(readFileSync(into, "utf8"), markdownTables(reports, without)));

function write(path: string, content: string): void {
  writeFileSync(path, content);
  console.log(path);
}
