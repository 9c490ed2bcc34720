/** One spec of the suite. */
export interface SuiteSpec {
  readonly name: string;
  readonly status: "passed" | "failed" | "skipped";
  /** Why it failed. */
  readonly message?: string;
}

/** What a run of the suite gave. */
export interface SuiteResult {
  /** The names of the backend in docs/tfjs-suite.md, from the most general to what holds in this engine alone. */
  readonly backends: readonly string[];
  readonly device: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly milliseconds: number;
  readonly specs: readonly SuiteSpec[];
  /** Failures outside of specs. */
  readonly suiteFailures: readonly string[];
}
