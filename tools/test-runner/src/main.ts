// The `test` script: build, lint, the tests of every package in Node.js, and those for the browser.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { runBrowserTests } from "./browser-suite.js";
import { chooseMachine, type Machine } from "./machine.js";
import { runNodeTests } from "./node-suite.js";
import { type Options, parseOptions, UsageError } from "./options.js";
import { brokenDown, closingLine, NOTHING, type Outcome, sum } from "./outcome.js";
import { bundlePage } from "./page-bundle.js";
import { browserEntries, nodeTests, workspacePackages, workspaceRoot } from "./workspace.js";

async function main(options: Options): Promise<Outcome> {
  const build = await step("build", async () => {
    const compiled = command("typescript/bin/tsc", "-b");
    if (compiled.failed === 0) await bundlePage();
    return compiled;
  });
  // Tests of an older build would say nothing about these sources.
  if (build.failed > 0) return build;
  const lint = await step("lint", () => command("@biomejs/biome/bin/biome", "check", "--error-on-warnings"));
  const machine = await chooseMachine(options.adapter);
  console.log(`\nTesting on ${machine.description}, Node.js ${process.versions.node}`);
  const outcomes = [build, lint];
  if (options.only !== "browser") outcomes.push(await nodePart(options, machine));
  if (options.only !== "node") outcomes.push(await browserPart(options, machine));
  return sum(outcomes);
}

async function nodePart(options: Options, machine: Machine): Promise<Outcome> {
  const outcomes: Outcome[] = [];
  for (const { path } of workspacePackages()) {
    const files = nodeTests(path);
    if (files.length === 0) continue;
    outcomes.push(
      await step(`test ${path}`, () => runNodeTests(path, files, { env: machine.env, grep: options.grep })),
    );
  }
  return sum(outcomes);
}

function browserPart(options: Options, machine: Machine): Promise<Outcome> {
  const entries = workspacePackages().flatMap(({ path }) => browserEntries(path));
  return step("test in the browser", () =>
    runBrowserTests(entries, { grep: options.grep, launch: machine.launch }),
  );
}

async function step(title: string, work: () => Promise<Outcome> | Outcome): Promise<Outcome> {
  console.log(`\n== ${title}`);
  const start = performance.now();
  let outcome: Outcome;
  try {
    outcome = await work();
  } catch (error) {
    console.error(error);
    outcome = brokenDown(`${title}: ${(error as Error).message}`);
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`== ${title}: ${outcome.failed === 0 ? "ok" : `${outcome.failed} failed`}, ${seconds} s`);
  return outcome;
}

function command(program: string, ...args: string[]): Outcome {
  const path = fileURLToPath(new URL(`node_modules/${program}`, `file://${workspaceRoot}`));
  const { status } = spawnSync(process.execPath, [path, ...args], { cwd: workspaceRoot, stdio: "inherit" });
  return status === 0 ? NOTHING : brokenDown(`${program.split("/").at(-1)} ${args.join(" ")}`);
}

try {
  const outcome = await main(parseOptions(process.argv.slice(2)));
  if (outcome.failures.length > 0)
    console.log(`\nFailed:\n${outcome.failures.map((title) => `  ${title}`).join("\n")}`);
  console.log(`\n${closingLine(outcome)}`);
  process.exitCode = outcome.failed === 0 && outcome.passed > 0 ? 0 : 1;
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
