// The `test` script: build, lint, the tests of every package in Node.js, and those for the browser.
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { SoftwareAdapterUnavailable } from "@backplane/software-adapter";
import { runBrowserTests } from "./browser-suite.js";
import { chooseMachine, type Machine } from "./machine.js";
import { runNodeTests } from "./node-suite.js";
import { type Options, parseOptions, USAGE, UsageError } from "./options.js";
import { brokenDown, closingLine, NOTHING, type Outcome, sum } from "./outcome.js";
import { bundlePage } from "./page-bundle.js";
import { timeTables } from "./test-times.js";
import { Transcript } from "./transcript.js";
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
  const machine = await findMachine(options);
  if (machine === undefined)
    return sum([build, lint, brokenDown(`the adapter ${options.adapter} is missing`)]);
  console.log(`\nTesting on ${machine.description}, Node.js ${process.versions.node}`);
  const outcomes = [build, lint];
  if (options.only !== "browser") outcomes.push(await nodePart(options, machine));
  if (options.only !== "node") outcomes.push(await browserPart(options, machine));
  return sum(outcomes);
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

/** Files of one package that run in one process. More would leave one process to run long alone at the end. */
const FILES_AT_ONCE = 5;

/** Each process waits now and then, for a device or for a time: so there is one more than cores, to a limit. */
const MOST_AT_ONCE = 3;

/** Several processes at a time; each prints as if it were alone. */
async function nodePart(options: Options, machine: Machine): Promise<Outcome> {
  // Those with the most files take longest: begun last, they would run on when all others are done.
  const packages = workspacePackages().map(({ path }) => ({ path, files: nodeTests(path) }));
  const largestFirst = packages.sort((a, b) => b.files.length - a.files.length);
  const parts = largestFirst.flatMap(({ path, files }) => partsOf(path, files));
  const transcript = new Transcript(parts.length, (text) => process.stdout.write(text));
  const outcomes: Outcome[] = [];
  const remaining = parts.entries();
  const runRemaining = async (): Promise<void> => {
    for (const [i, { title, files }] of remaining) {
      const write = (text: string): void => transcript.write(i, text);
      const run = () => runNodeTests(title, files, { env: machine.env, grep: options.grep, write });
      outcomes.push(await step(`test ${title}`, run, write));
      transcript.end(i);
    }
  };
  const atOnce = Math.min(MOST_AT_ONCE, availableParallelism() + 1);
  await Promise.all(Array.from({ length: atOnce }, runRemaining));
  return sum(outcomes);
}

function partsOf(path: string, files: readonly string[]): { title: string; files: readonly string[] }[] {
  const count = Math.ceil(files.length / FILES_AT_ONCE);
  return Array.from({ length: count }, (_, i) => ({
    title: count === 1 ? path : `${path} (${i + 1} of ${count})`,
    files: files.slice((i * files.length) / count, ((i + 1) * files.length) / count),
  }));
}

function browserPart(options: Options, machine: Machine): Promise<Outcome> {
  // The laws on backends take longest, and stand last.
  const entries = workspacePackages()
    .flatMap(({ path }) => browserEntries(path))
    .reverse();
  return step("test in the browser", () =>
    runBrowserTests(entries, { grep: options.grep, launch: machine.launch }),
  );
}

async function step(
  title: string,
  work: () => Promise<Outcome> | Outcome,
  write: (text: string) => void = (text) => process.stdout.write(text),
): Promise<Outcome> {
  write(`\n== ${title}\n`);
  const start = performance.now();
  let outcome: Outcome;
  try {
    outcome = await work();
  } catch (error) {
    console.error(error);
    outcome = brokenDown(`${title}: ${(error as Error).message}`);
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  write(`== ${title}: ${outcome.failed === 0 ? "ok" : `${outcome.failed} failed`}, ${seconds} s\n`);
  return outcome;
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
