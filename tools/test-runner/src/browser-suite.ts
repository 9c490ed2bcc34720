import { format } from "node:util";
import { reporters } from "mocha";
import type { Browser } from "playwright-core";
import { brokenDown, failureLine, type Outcome, sum, unlessEmpty } from "./outcome.js";
import { type PageFailure, type PageMessage, TELL_RUNNER } from "./page-messages.js";
import { type FinishedTest, sourceOf, TestLines } from "./test-times.js";
import { workspaceRoot } from "./workspace.js";

// Against hangs only, as in node-suite.ts.
const ENTRY_LIMIT_MILLISECONDS = 60 * 60_000;
const TEST_LIMIT_MILLISECONDS = 20 * 60_000;

export interface BrowserSuiteOptions {
  /** Of the server that `startPageServer` starts. */
  readonly origin: string;
  readonly grep: string | undefined;
  readonly launch: () => Promise<Browser>;
  /** Receives the output of the pages. Default: ignored. */
  readonly write?: (text: string) => void;
  /** Default 60 minutes. */
  readonly entryLimitMilliseconds?: number;
}

/** Runs an entry in a browser of its own: a crash of its GPU process, too, is charged to the entry. */
export async function runBrowserTests(entry: string, options: BrowserSuiteOptions): Promise<Outcome> {
  const { write = () => {} } = options;
  const ran = await runEntry(entry, options, write);
  write(`\n  ${passedOf(ran)} passing, ${ran.failures.length} failing\n`);
  if (ran.breakdown !== undefined) write(`\n  ${ran.breakdown}\n`);
  write(listOf(ran.failures));
  return outcomeOf(entry, ran, options);
}

function pageAddress(entry: string, { origin, grep }: BrowserSuiteOptions): string {
  const query = new URLSearchParams({ entry, timeout: String(TEST_LIMIT_MILLISECONDS) });
  if (grep !== undefined) query.set("grep", grep);
  return `${origin}/page?${query}`;
}

interface EntryRun {
  readonly tests: readonly FinishedTest[];
  readonly failures: readonly PageFailure[];
  /** The error that kept the page from running its tests to the end. */
  readonly breakdown: string | undefined;
}

function passedOf({ tests }: EntryRun): number {
  return tests.filter(({ state }) => state === "passed").length;
}

async function runEntry(
  entry: string,
  options: BrowserSuiteOptions,
  write: (text: string) => void,
): Promise<EntryRun> {
  const { launch, entryLimitMilliseconds = ENTRY_LIMIT_MILLISECONDS } = options;
  const tests: FinishedTest[] = [];
  const lines = new TestLines();
  const failures: PageFailure[] = [];
  let browser: Browser | undefined;
  let timer: NodeJS.Timeout | undefined;
  try {
    browser = await launch();
    write(`\n  ${entry} in Chromium ${browser.version()}\n`);
    const page = await browser.newPage();
    page.on("console", (message) => write(`  [${message.type()}] ${message.text()}\n`));
    page.on("response", (response) => {
      if (response.status() >= 400) write(`  [${response.status()}] ${response.url()}\n`);
    });
    let end: (breakdown?: string) => void = () => undefined;
    const ended = new Promise<string | undefined>((resolve) => {
      end = resolve;
    });
    timer = setTimeout(() => end("it ran past its time limit"), entryLimitMilliseconds);
    page.on("pageerror", (error) => end(`uncaught outside of a test: ${error.stack ?? error.message}`));
    page.on("crash", () => end("the page crashed"));
    page.on("close", () => end("the page was closed"));
    await page.exposeFunction(TELL_RUNNER, (message: PageMessage) => {
      if (message.type === "end") return end();
      if (message.type === "broken") return end(message.message);
      tests.push(message.test);
      if (message.failure !== undefined) failures.push(message.failure);
      write(lines.lineOf(message.test));
    });
    page.goto(pageAddress(entry, options)).catch((error: Error) => end(error.message));
    const breakdown = await ended;
    return { tests, failures, breakdown };
  } catch (error) {
    return { tests, failures, breakdown: (error as Error).message };
  } finally {
    clearTimeout(timer);
    await browser?.close();
  }
}

function outcomeOf(entry: string, entryRun: EntryRun, options: BrowserSuiteOptions): Outcome {
  const { tests, failures, breakdown } = entryRun;
  const file = sourceOf(entry, workspaceRoot);
  const ran: Outcome = {
    passed: passedOf(entryRun),
    failed: failures.length,
    failures: failures.map(({ titlePath, message }) => failureLine(titlePath, message)),
    times: tests.map(({ titlePath, milliseconds }) => ({ file, title: titlePath.join(" > "), milliseconds })),
  };
  if (breakdown === undefined) return unlessEmpty(entry, ran, options.grep);
  return sum([ran, brokenDown(`${entry}: ${breakdown.split("\n", 1)[0]}`)]);
}

/** Failures as mocha lists its own. */
function listOf(failures: readonly PageFailure[]): string {
  const tests = failures.map(({ titlePath, ...error }) => ({
    titlePath: () => titlePath,
    fullTitle: () => titlePath.join(" "),
    err: { ...error, showDiff: error.actual !== undefined },
  }));
  const lines: string[] = [];
  const { consoleLog } = reporters.Base;
  reporters.Base.consoleLog = (...values: unknown[]) => {
    lines.push(`${format(...values)}\n`);
  };
  try {
    if (tests.length > 0) reporters.Base.list(tests as unknown as Mocha.Test[]);
  } finally {
    reporters.Base.consoleLog = consoleLog;
  }
  return lines.join("");
}
