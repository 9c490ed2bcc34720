import { runPageProgram } from "@backplane/page";

await runPageProgram(
  {
    command: "npx -y pnpm@12 story-page",
    purpose: "A page that writes with a language model from a file, on the GPU or the CPU, as a button says.",
    html: new URL("../src/index.html", import.meta.url),
    script: new URL("./page.js", import.meta.url),
  },
  process.argv.slice(2),
);
