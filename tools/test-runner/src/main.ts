// The `test` script: build, lint, the tests of every package in Node.js, and those for the browser.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { SoftwareAdapterUnavailable } from "@backplane/software-adapter";
import { chooseMachine, type Machine } from "./machine.js";
import { type Options, parseOptions, USAGE, UsageError } from "./options.js";
import { brokenDown, closingLine, NOTHING, type Outcome, sum } from "./outcome.js";
import { bundlePage } from "./page-bundle.js";
import { startPageServer } from "./page-server.js";
import { runParts, testParts } from "./parts.js";
import { environmentOf, Proven, readRecord, writeRecord } from "./proven.js";
import { step } from "./step.js";
import { sourceOf, timeTables } from "./test-times.js";
import { browserEntries, nodeTests, type TestFile, workspacePackages, workspaceRoot } from "./workspace.js";

async function main(options: Options): Promise<Outcome> {
  const build = options.built ? NOTHING : await step("build", buildAll);
  // Tests of an older build would say nothing about these sources.
  if (build.failed > 0) return build;
  const lint = options.built
    ? NOTHING
    : await step("lint", () => command("@biomejs/biome/bin/biome", "check", "--error-on-warnings"));
  const machine = await findMachine(options);
  if (machine === undefined)
    return sum([build, lint, brokenDown(`the adapter ${options.adapter} is missing`)]);
  console.log(`\nTesting on ${machine.description}, Node.js ${process.versions.node}`);
  const server = await startPageServer();
  try {
    return sum([build, lint, await step("tests", () => runTests(options, machine, server.origin))]);
  } finally {
    await server.close();
  }
}

async function buildAll(): Promise<Outcome> {
  const compiled = command("typescript/bin/tsc", "-b");
  if (compiled.failed === 0) await bundlePage();
  return compiled;
}

async function runTests(options: Options, machine: Machine, origin: string): Promise<Outcome> {
  const { all, grep, tag, record } = options;
  const proven = new Proven(environmentOf(machine.description), machine.isKnown ? readRecord() : {});
  const leftOut: TestFile[] = [];
  // What is asked for by name runs.
  const leavesOut = !all && grep === undefined && tag === undefined;
  const parts = testParts(options, machine, origin, (file) => {
    const isLeftOut = leavesOut && proven.has(file);
    if (isLeftOut) leftOut.push(file);
    return isLeftOut;
  });
  if (leftOut.length > 0)
    console.log(
      `\n${leftOut.length} files are left out: their tests have passed on this adapter, and nothing that they ` +
        `load has changed since (tools/test-runner/proven.json). --all runs them.\n` +
        leftOut.map(({ compiled }) => `  ${sourceOf(compiled, workspaceRoot)}`).join("\n"),
    );
  const recorded = record && machine.isKnown ? allFiles() : undefined;
  const passed: TestFile[] = [];
  return runParts(parts, ({ files }, { failed }) => {
    if (failed > 0 || recorded === undefined) return;
    passed.push(...files);
    // After each part, so that a run that is interrupted has not been for nothing.
    writeRecord(proven.renewed(recorded, passed));
  });
}

function allFiles(): readonly TestFile[] {
  return workspacePackages().flatMap(({ path }) => [...nodeTests(path), ...browserEntries(path)]);
}

/** A missing adapter is a failure, told without a stack: it is no mistake of this program. */
async function findMachine(options: Options): Promise<Machine | undefined> {
  try {
    return await chooseMachine(options.adapter);
  } catch (error) {
    if (!(error instanceof SoftwareAdapterUnavailable)) throw error;
    console.error(`\n${error.message}`);
    return undefined;
  }
}

function command(program: string, ...args: string[]): Outcome {
  const path = fileURLToPath(new URL(`node_modules/${program}`, `file://${workspaceRoot}`));
  const { status } = spawnSync(process.execPath, [path, ...args], { cwd: workspaceRoot, stdio: "inherit" });
  return status === 0 ? NOTHING : brokenDown(`${program.split("/").at(-1)} ${args.join(" ")}`);
}

try {
  const options = parseOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
  } else {
    const outcome = await main(options);
    console.log(`\n${timeTables(outcome.times)}`);
    if (outcome.failures.length > 0)
      console.log(`\nFailed:\n${outcome.failures.map((title) => `  ${title}`).join("\n")}`);
    console.log(`\n${closingLine(outcome)}`);
    process.exitCode = outcome.failed === 0 && outcome.passed > 0 ? 0 : 1;
  }
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
