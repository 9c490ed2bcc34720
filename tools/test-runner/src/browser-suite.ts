import { reporters } from "mocha";
import type { Browser, Page } from "playwright-core";
import { brokenDown, type Outcome, sum, unlessEmpty } from "./outcome.js";
import { type PageFailure, type PageMessage, TELL_RUNNER } from "./page-messages.js";
import { startPageServer } from "./page-server.js";

const ENTRY_LIMIT_MILLISECONDS = 10 * 60_000;
const TEST_LIMIT_MILLISECONDS = 60_000;

export interface BrowserSuiteOptions {
  readonly grep: string | undefined;
  readonly launch: () => Promise<Browser>;
  /** Keeps what the pages print to themselves. */
  readonly quiet?: boolean;
}

/** Runs every entry in a page of its own, one after the other, in one browser. */
export async function runBrowserTests(
  entries: readonly string[],
  options: BrowserSuiteOptions,
): Promise<Outcome> {
  const server = await startPageServer();
  try {
    const browser = await options.launch();
    try {
      const write = options.quiet ? () => true : (text: string) => process.stdout.write(text);
      write(`  Chromium ${browser.version()}\n`);
      const outcomes: Outcome[] = [];
      for (const entry of entries) {
        write(`\n  ${entry}\n  `);
        const context = await browser.newContext();
        const ran = await runEntry(
          await context.newPage(),
          pageAddress(server.origin, entry, options),
          write,
        );
        await context.close();
        write(`\n  ${ran.passed} passing, ${ran.failures.length} failing\n`);
        if (ran.breakdown !== undefined) write(`\n  ${ran.breakdown}\n`);
        if (!options.quiet) printFailures(ran.failures);
        outcomes.push(outcomeOf(entry, ran, options));
      }
      return sum(outcomes);
    } finally {
      await browser.close();
    }
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

async function runEntry(page: Page, address: string, write: (text: string) => void): Promise<EntryRun> {
  let passed = 0;
  const failures: PageFailure[] = [];
  page.on("console", (message) => write(`\n  [${message.type()}] ${message.text()}\n  `));
  page.on("pageerror", (error) => write(`\n  [uncaught] ${error.stack ?? error.message}\n  `));
  page.on("response", (response) => {
    if (response.status() >= 400) write(`\n  [${response.status()}] ${response.url()}\n  `);
  });
  let end: (breakdown?: string) => void = () => undefined;
  const ended = new Promise<string | undefined>((resolve) => {
    end = resolve;
  });
  const timer = setTimeout(() => end("it ran past its time limit"), ENTRY_LIMIT_MILLISECONDS);
  page.on("crash", () => end("the page crashed"));
  page.on("close", () => end("the page was closed"));
  await page.exposeFunction(TELL_RUNNER, (message: PageMessage) => {
    if (message.type === "pass") passed++;
    if (message.type === "fail") failures.push(message.failure);
    if (message.type === "end") end();
    else if (message.type === "broken") end(message.message);
    else write({ pass: ".", pending: ",", fail: "!" }[message.type]);
  });
  await page.goto(address);
  const breakdown = await ended;
  clearTimeout(timer);
  return { passed, failures, breakdown };
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

/** Lists failures as mocha lists its own. */
function printFailures(failures: readonly PageFailure[]): void {
  const tests = failures.map(({ titlePath, ...error }) => ({
    titlePath: () => titlePath,
    fullTitle: () => titlePath.join(" "),
    err: { ...error, showDiff: error.actual !== undefined },
  }));
  reporters.Base.list(tests as unknown as Mocha.Test[]);
}
