import type { PageFailure, PageMessage } from "./page-messages.js";
import type { FinishedTest } from "./test-times.js";

/** Address of mocha's build for browsers on the page's server. It works in workers too. */
const mochaAddress: string = "/vendor/mocha.js";

/**
 * Runs one entry under mocha, in a page or in a worker, and tells about every test. The address of
 * either names the entry and the time limit of a test; mocha itself takes the filter from there.
 */
export async function runEntry(send: (message: PageMessage) => void): Promise<void> {
  const parameters = new URL(location.href).searchParams;
  // Both mocha and the browser know uncaught errors only; a rejection nobody handles must fail as well.
  addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    reportError(event.reason);
  });
  try {
    await import(mochaAddress);
    mocha.setup({
      ui: "bdd",
      reporter: reporterTo(send) as unknown as Mocha.ReporterConstructor,
      timeout: Number(parameters.get("timeout")),
      forbidOnly: true,
    });
    await import(parameters.get("entry")!);
    mocha.run();
  } catch (error) {
    send({ type: "broken", message: (error as Error).stack ?? String(error) });
  }
}

function reporterTo(send: (message: PageMessage) => void): new (runner: Mocha.Runner) => object {
  return class {
    constructor(runner: Mocha.Runner) {
      runner.on("pass", (test) => send({ type: "test", test: finished(test, "passed") }));
      runner.on("pending", (test) => send({ type: "test", test: finished(test, "skipped") }));
      runner.on("hook end", (hook) => send({ type: "test", test: finished(hook, "hook") }));
      runner.on("fail", (test, error: Error) =>
        send({ type: "test", test: finished(test, "failed"), failure: describeFailure(test, error) }),
      );
      runner.on("end", () => send({ type: "end" }));
    }
  };
}

function finished(test: Mocha.Runnable, state: FinishedTest["state"]): FinishedTest {
  return { titlePath: test.titlePath(), state, milliseconds: test.duration ?? 0 };
}

function describeFailure(test: Mocha.Runnable, error: Error): PageFailure {
  const { actual, expected } = error as { actual?: unknown; expected?: unknown };
  const compared = actual !== undefined && expected !== undefined;
  return {
    titlePath: test.titlePath(),
    message: error.message,
    stack: error.stack ?? error.message,
    ...(compared ? { actual: Mocha.utils.stringify(actual), expected: Mocha.utils.stringify(expected) } : {}),
  };
}
