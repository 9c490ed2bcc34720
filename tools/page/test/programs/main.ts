import { runPageProgram } from "@backplane/page";

await runPageProgram(
  {
    command: "some command",
    purpose: "Shows a line.",
    html: new URL("../../test/programs/index.html", import.meta.url),
    script: new URL("./page.js", import.meta.url),
  },
  process.argv.slice(2),
);
