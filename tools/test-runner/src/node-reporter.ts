import { type Runner, reporters } from "mocha";
import { failureLine, type Outcome } from "./outcome.js";
import { type FinishedTest, sourceOf, TestLines, type TestTime } from "./test-times.js";
import { workspaceRoot } from "./workspace.js";

/** A line with the time of each test, mocha's list of failures, and the outcome sent to the process that started this one. */
export default class NodeReporter extends reporters.Base {
  constructor(runner: Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    // Nobody waits for the outcome any more. A listener alone would keep this process alive.
    process.once("disconnect", () => process.kill(process.pid, "SIGKILL"));
    process.channel?.unref();
    const lines = new TestLines();
    const times: TestTime[] = [];
    let lastFile = "";
    const note = (state: FinishedTest["state"]) => (test: Mocha.Runnable) => {
      const [titlePath, milliseconds] = [test.titlePath(), test.duration ?? 0];
      const file = sourceOf(test.file ?? "", workspaceRoot);
      if (file !== lastFile) process.stdout.write(`\n${file}\n`);
      lastFile = file;
      process.stdout.write(lines.lineOf({ titlePath, state, milliseconds }));
      times.push({ file, title: titlePath.join(" > "), milliseconds });
    };
    runner.on("pass", note("passed"));
    runner.on("pending", note("skipped"));
    runner.on("fail", note("failed"));
    runner.on("hook end", note("hook"));
    runner.once("end", () => {
      this.epilogue();
      const failures = this.failures.map((test) =>
        failureLine(test.titlePath(), String(test.err?.message ?? "")),
      );
      const outcome: Outcome = { passed: this.stats.passes, failed: this.stats.failures, failures, times };
      process.send?.(outcome);
    });
  }
}
