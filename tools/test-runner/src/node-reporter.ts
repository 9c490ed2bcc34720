import { type Runner, reporters } from "mocha";
import type { Outcome } from "./outcome.js";

/** mocha's dots and its list of failures, and the outcome sent to the process that started this one. */
export default class NodeReporter extends reporters.Dot {
  constructor(runner: Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    runner.once("end", () => {
      const failures = this.failures.map((test) => test.titlePath().join(" > "));
      const outcome: Outcome = { passed: this.stats.passes, failed: this.stats.failures, failures };
      process.send?.(outcome);
    });
  }
}
