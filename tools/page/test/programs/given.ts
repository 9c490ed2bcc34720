import { pathToFileURL } from "node:url";
import { runPageProgram } from "@backplane/page";

/** Its script is the file that the first argument names. */
const [script, ...args] = process.argv.slice(2) as [string, ...string[]];

await runPageProgram(
  {
    command: "some command",
    purpose: "Shows what it is given.",
    html: new URL("../../test/programs/index.html", import.meta.url),
    script: pathToFileURL(script),
  },
  args,
);
