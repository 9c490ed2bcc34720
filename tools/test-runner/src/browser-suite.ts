import { availableParallelism } from "node:os";
import { format } from "node:util";
import { reporters } from "mocha";
import type { Browser } from "playwright-core";
import { brokenDown, type Outcome, sum, unlessEmpty } from "./outcome.js";
import { type PageFailure, type PageMessage, TELL_RUNNER } from "./page-messages.js";
import { startPageServer } from "./page-server.js";
import { Transcript } from "./transcript.js";

// Against hangs only, as in node-suite.ts.
const ENTRY_LIMIT_MILLISECONDS = 60 * 60_000;
const TEST_LIMIT_MILLISECONDS = 20 * 60_000;
/** An entry keeps about one core busy: most of the time goes into compiling shaders, one after the other. */
const MOST_AT_ONCE = 4;

export interface BrowserSuiteOptions {
  readonly grep: string | undefined;
  readonly launch: () => Promise<Browser>;
  /** Keeps what the pages print to themselves. */
  readonly quiet?: boolean;
  /** Default 60 minutes. */
  readonly entryLimitMilliseconds?: number;
}

/**
 * Runs every entry in a browser of its own, as many at a time as there are cores for: a crash of its
 * GPU process, too, is charged to the entry.
 */
export async function runBrowserTests(
  entries: readonly string[],
  options: BrowserSuiteOptions,
): Promise<Outcome> {
  const server = await startPageServer();
  try {
    const print = options.quiet ? () => {} : (text: string) => process.stdout.write(text);
    const transcript = new Transcript(entries.length, print);
    const outcomes: Outcome[] = [];
    const remaining = entries.entries();
    const runRemaining = async () => {
      for (const [part, entry] of remaining) {
        const write = (text: string) => transcript.write(part, text);
        const address = pageAddress(server.origin, entry, options);
        const started = performance.now();
        const ran = await runEntry(entry, address, options, write);
        const seconds = ((performance.now() - started) / 1000).toFixed(1);
        write(`\n  ${ran.passed} passing, ${ran.failures.length} failing (${seconds} s)\n`);
        if (ran.breakdown !== undefined) write(`\n  ${ran.breakdown}\n`);
        write(listOf(ran.failures));
        transcript.end(part);
        outcomes[part] = outcomeOf(entry, ran, options);
      }
    };
    await Promise.all(Array.from({ length: Math.min(MOST_AT_ONCE, availableParallelism()) }, runRemaining));
    return sum(outcomes);
  } finally {
    await server.close();
  }
}

function pageAddress(origin: string, entry: string, { grep }: BrowserSuiteOptions): string {
  const query = new URLSearchParams({ entry, timeout: String(TEST_LIMIT_MILLISECONDS) });
  if (grep !== undefined) query.set("grep", grep);
  return `${origin}/page?${query}`;
}

interface EntryRun {
  readonly passed: number;
  readonly failures: readonly PageFailure[];
  /** What kept the page from running its tests to the end. */
  readonly breakdown: string | undefined;
}

async function runEntry(
  entry: string,
  address: string,
  { launch, entryLimitMilliseconds = ENTRY_LIMIT_MILLISECONDS }: BrowserSuiteOptions,
  write: (text: string) => void,
): Promise<EntryRun> {
  let passed = 0;
  const failures: PageFailure[] = [];
  let browser: Browser | undefined;
  let timer: NodeJS.Timeout | undefined;
  try {
    browser = await launch();
    write(`\n  ${entry} in Chromium ${browser.version()}\n  `);
    const page = await browser.newPage();
    page.on("console", (message) => write(`\n  [${message.type()}] ${message.text()}\n  `));
    page.on("response", (response) => {
      if (response.status() >= 400) write(`\n  [${response.status()}] ${response.url()}\n  `);
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
      if (message.type === "pass") passed++;
      if (message.type === "fail") failures.push(message.failure);
      if (message.type === "end") end();
      else if (message.type === "broken") end(message.message);
      else write({ pass: ".", pending: ",", fail: "!" }[message.type]);
    });
    page.goto(address).catch((error: Error) => end(error.message));
    const breakdown = await ended;
    return { passed, failures, breakdown };
  } catch (error) {
    return { passed, failures, breakdown: (error as Error).message };
  } finally {
    clearTimeout(timer);
    await browser?.close();
  }
}

function outcomeOf(
  entry: string,
  { passed, failures, breakdown }: EntryRun,
  options: BrowserSuiteOptions,
): Outcome {
  const ran: Outcome = {
    passed,
    failed: failures.length,
    failures: failures.map((failure) => failure.titlePath.join(" > ")),
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
