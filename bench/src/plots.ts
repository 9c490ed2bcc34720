import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { drawings } from "./drawings.js";
import { markdownTables, tableEnd, tableStart, withTables } from "./markdown.js";
import type { Report } from "./result.js";

const help = `Draws the results of the benchmark: node bench/dist/plots.js RESULTS.json [...]

  --out FOLDER   where the SVG files go; default docs/plots
  --into FILE    writes only the tables of results, into this Markdown file, between the lines
                 ${tableStart} and ${tableEnd}
  --without NAME leaves this configuration out of the tables; may be repeated
  --help         this text

One file for each curve there is ("--sweep"), and one that compares ours with the anchors. Of two
results for the same case, that of the file named last counts.`;

process.exitCode = main();

function main(): number {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        out: { type: "string", default: "docs/plots" },
        into: { type: "string" },
        without: { type: "string", multiple: true, default: [] },
        help: { type: "boolean", default: false },
      },
    });
    if (values.help || positionals.length === 0) {
      console.log(help);
      return values.help ? 0 : 2;
    }
    const reports = positionals.map((path) => JSON.parse(readFileSync(path, "utf8")) as Report);
    if (values.into !== undefined) {
      const tables = markdownTables(reports, values.without);
      writeFileSync(values.into, withTables(readFileSync(values.into, "utf8"), tables));
      console.log(values.into);
      return 0;
    }
    mkdirSync(values.out, { recursive: true });
    for (const [name, svg] of drawings(reports)) {
      const path = join(values.out, `${name}.svg`);
      writeFileSync(path, svg);
      console.log(path);
    }
    return 0;
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    return 2;
  }
}
