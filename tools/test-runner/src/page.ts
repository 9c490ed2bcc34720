// Runs in the page: loads one entry under mocha and tells the runner about every test.
import { type PageFailure, type PageMessage, TELL_RUNNER, type TellRunner } from "./page-messages.js";

const parameters = new URL(location.href).searchParams;
const tell = (globalThis as unknown as Record<string, TellRunner>)[TELL_RUNNER]!;

/** Messages go out in order and the end waits for them, so the runner never sees an end too early. */
let sent: Promise<void> = Promise.resolve();
function send(message: PageMessage): void {
  sent = sent.then(() => tell(message));
}

class PageReporter {
  constructor(runner: Mocha.Runner) {
    runner.on("pass", () => send({ type: "pass" }));
    runner.on("pending", () => send({ type: "pending" }));
    runner.on("fail", (test, error: Error) => send({ type: "fail", failure: describeFailure(test, error) }));
    runner.on("end", () => send({ type: "end" }));
  }
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

mocha.setup({
  ui: "bdd",
  reporter: PageReporter as unknown as Mocha.ReporterConstructor,
  timeout: Number(parameters.get("timeout")),
  forbidOnly: true,
});
try {
  // mocha reads "grep" from the address of the page by itself.
  await import(parameters.get("entry")!);
  mocha.run();
} catch (error) {
  send({ type: "broken", message: (error as Error).stack ?? String(error) });
}
