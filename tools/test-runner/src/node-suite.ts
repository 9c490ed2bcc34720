import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { brokenDown, type Outcome, sum, unlessEmpty } from "./outcome.js";

// All limits, here and in the browser, guard against hangs only. The longest test takes a minute and the longest
// process a few, on two cores at leisure; a slow machine with other work takes twenty times as long, and must not fail.
const RUN_LIMIT_MILLISECONDS = 60 * 60_000;
/** As in .mocharc.json and in the browser. */
const TEST_LIMIT_MILLISECONDS = 20 * 60_000;
/** After its last test a process must end by itself: a test or a backend that keeps it alive is at fault. */
const EXIT_LIMIT_MILLISECONDS = 2 * 60_000;
const REST_LIMIT_MILLISECONDS = 1000;

const mocha = fileURLToPath(new URL("bin/mocha.js", import.meta.resolve("mocha")));
const reporter = fileURLToPath(new URL("./node-reporter.js", import.meta.url));
/** Holds the files that software adapters read from the working folder. */
const workingFolder = fileURLToPath(new URL("../working-folder", import.meta.url));

export interface NodeSuiteOptions {
  readonly env: Readonly<Record<string, string>>;
  readonly grep: string | undefined;
  /** Receives the output of the tests. Default: ignored. */
  readonly write?: (text: string) => void;
}

/** Runs test files in a process of their own, so that a crash is charged to the package they belong to. */
export async function runNodeTests(
  packageName: string,
  files: readonly string[],
  options: NodeSuiteOptions,
): Promise<Outcome> {
  const grep = options.grep === undefined ? [] : ["--grep", options.grep];
  const { write } = options;
  const output = write === undefined ? "ignore" : "pipe";
  const limit = ["--timeout", String(TEST_LIMIT_MILLISECONDS)];
  const child = spawn(process.execPath, [mocha, "--reporter", reporter, ...limit, ...grep, ...files], {
    cwd: workingFolder,
    env: { ...process.env, ...options.env },
    stdio: ["ignore", output, output, "ipc"],
  });
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", write!);
  const { reported, ending } = await watch(child);
  if (reported === undefined) return brokenDown(`${packageName}: the test process ended early (${ending})`);
  const expected = reported.failed > 0 ? "exit code above 0" : "exit code 0";
  return ending === expected
    ? unlessEmpty(packageName, reported, options.grep)
    : sum([reported, brokenDown(`${packageName}: the test process did not end well (${ending})`)]);
}

interface Watched {
  readonly reported: Outcome | undefined;
  readonly ending: string;
}

function watch(child: ChildProcess): Promise<Watched> {
  return new Promise((resolve, reject) => {
    let reported: Outcome | undefined;
    let killed: string | undefined;
    const killAfter = (milliseconds: number, why: string): NodeJS.Timeout =>
      setTimeout(() => {
        killed = why;
        child.kill("SIGKILL");
      }, milliseconds);
    let timer = killAfter(RUN_LIMIT_MILLISECONDS, "it ran past its time limit");
    child.on("message", (message) => {
      reported = message as Outcome;
      clearTimeout(timer);
      timer = killAfter(EXIT_LIMIT_MILLISECONDS, "something kept it alive after its last test");
    });
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      const byItself = signal ?? (code === 0 ? "exit code 0" : "exit code above 0");
      const done = (): void => resolve({ reported, ending: killed ?? byItself });
      // Wait for the rest of its output; but a child process of its own may hold the pipes open for long.
      child.once("close", done);
      setTimeout(done, REST_LIMIT_MILLISECONDS);
    });
  });
}
