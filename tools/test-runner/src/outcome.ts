import type { TestTime } from "./test-times.js";

/** The outcome of a step of the run. A step that breaks down counts as one failure. */
export interface Outcome {
  readonly passed: number;
  readonly failed: number;
  /** A line for each failure, for the list at the end of the run. */
  readonly failures: readonly string[];
  readonly times: readonly TestTime[];
}

export const NOTHING: Outcome = { passed: 0, failed: 0, failures: [], times: [] };

export function brokenDown(what: string): Outcome {
  return { passed: 0, failed: 1, failures: [what], times: [] };
}

/** A failed test, with the beginning of what it said: where the output of a run is cut, its end may be all there is. */
export function failureLine(titlePath: readonly string[], message: string): string {
  return `${titlePath.join(" > ")}: ${message.trim().split("\n", 1)[0]!.slice(0, 300)}`;
}

export function sum(outcomes: readonly Outcome[]): Outcome {
  return {
    passed: outcomes.reduce((total, outcome) => total + outcome.passed, 0),
    failed: outcomes.reduce((total, outcome) => total + outcome.failed, 0),
    failures: outcomes.flatMap((outcome) => outcome.failures),
    times: outcomes.flatMap((outcome) => outcome.times),
  };
}

/** A run without tests is a failure, unless a filter left none. */
export function unlessEmpty(where: string, outcome: Outcome, grep: string | undefined): Outcome {
  const isEmpty = outcome.passed + outcome.failed === 0;
  return isEmpty && grep === undefined ? brokenDown(`${where}: no test ran`) : outcome;
}

/** The last line of every run. Scripts read it, so its form is fixed. */
export function closingLine(outcome: Outcome): string {
  return `${outcome.passed} passed, ${outcome.failed} failed`;
}
