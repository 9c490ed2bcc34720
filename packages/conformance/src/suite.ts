import { BackendError } from "@backplane/core";
import { type BackendFacts, Bench, factsOf, type LawResult } from "./bench.js";
import { type Environment, environment } from "./environment.js";
import type { Law } from "./law.js";
import { merged } from "./measurements.js";
import { type Plan, planOf } from "./options.js";
import type { Subject } from "./subjects.js";

/** The functions of a test runner, named as in mocha. Other runners may name `before` `beforeAll`. */
export interface Runner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: (...args: unknown[]) => Promise<void>): unknown;
  before(body: () => Promise<void>): unknown;
  after(body: () => Promise<void>): unknown;
}

/** Registers one test per law with a test runner. */
export function describeBackend(subject: Subject, runner: Runner): void {
  const plan = planOf(subject.options ?? {});
  if (plan.mode === "soak")
    throw new BackendError("INVALID_ARGUMENT", "options.mode is soak; a test runner takes quick or default", {
      operation: "describeBackend",
      argument: "mode",
    });
  runner.describe(`${subject.name} keeps the laws of a compute backend`, () => {
    const bench = new Bench(subject, plan);
    let ended = () =>
      plan.signal?.aborted === true ? "the run was stopped" : (undefined as string | undefined);
    runner.before(async () => {
      ended = endOf(plan);
      await bench.open();
    });
    runner.after(() => bench.close());
    for (const topic of new Set(plan.laws.map((law) => law.topic))) {
      runner.describe(topic, () => {
        for (const law of plan.laws.filter((law) => law.topic === topic)) {
          const title = law.dtype === undefined ? law.name : `${law.dtype}: ${law.name}`;
          runner.it(title, async function (this: unknown, ...args: unknown[]): Promise<void> {
            const test = (this ?? args[0]) as TestControls | undefined;
            if (typeof test?.timeout === "function") test.timeout(plan.timeout);
            const { status, error, reason } = await bench.run(law, { seed: plan.seed, ended });
            if (status === "broken") throw error;
            const isSkipped = status !== "kept" && skip(this, args[0], reason);
            // If a runner cannot skip, laws that do not bind the backend pass, but laws that were not tried
            // must fail.
            if (status === "unfinished" && !isSkipped) throw new Error(reason);
          });
        }
      });
    }
  });
}

/** The progress of a run. */
export interface Progress {
  /** Laws done in this round, and all laws of the round. */
  readonly done: number;
  readonly total: number;
  readonly seed: number;
  /** Counts from 0; more than 0 in soak mode only. */
  readonly round: number;
}

export interface Listeners {
  /** Called once, before the first law. */
  readonly onOpen?: (backend: BackendFacts) => void;
  readonly onStart?: (law: Law, progress: Progress) => void;
  /** Called once for each law; in soak mode once for each law and seed. */
  readonly onResult?: (result: LawResult, progress: Progress) => void;
}

/** The complete outcome of a run; `buildReport` makes plain data from it. */
export interface SuiteOutcome {
  readonly name: string;
  readonly plan: Plan;
  readonly backend: BackendFacts;
  /** One for each law; in soak mode it covers all seeds. */
  readonly results: readonly LawResult[];
  readonly seeds: readonly number[];
  readonly startedAt: Date;
  readonly milliseconds: number;
  /** The laws that were not reached, and why. */
  readonly note: string | undefined;
  /** The error if the backend could not be disposed of at the end. */
  readonly disposal: unknown;
  readonly environment: Environment;
}

/**
 * Runs the laws without a test runner. Broken laws are results like others. Closes the backend and rejects
 * with `INVALID_ARGUMENT` if an option is bad, with the backend's error if it cannot be opened, and with any
 * error that a listener throws.
 */
export async function runSuite(subject: Subject, listeners: Listeners = {}): Promise<SuiteOutcome> {
  const plan = planOf(subject.options ?? {});
  const startedAt = new Date();
  const started = performance.now();
  const ended = endOf(plan);
  const bench = new Bench(subject, plan);
  const backend = factsOf(await bench.open());
  const results = new Map<Law, LawResult>();
  const seeds: number[] = [];
  let note: string | undefined;
  try {
    listeners.onOpen?.(backend);
    let wanted = plan.laws;
    for (let round = 0; round === 0 || (wanted.length > 0 && ended() === undefined); round++) {
      const seed = plan.seed + round;
      seeds.push(seed);
      const total = wanted.length;
      let finished = 0;
      for (const [done, law] of wanted.entries()) {
        const progress: Progress = { done, total, seed, round };
        listeners.onStart?.(law, progress);
        const result = await bench.run(law, { seed, ended });
        if (result.status !== "unfinished") finished++;
        const before = results.get(law);
        results.set(law, before === undefined ? result : joined(before, result));
        listeners.onResult?.(result, { ...progress, done: done + 1 });
        if (round > 0 && result.status === "unfinished") break;
      }
      if (finished < total)
        note = `${ended()}: ${total - finished} of ${total} laws were not finished with seed ${seed}`;
      if (plan.mode !== "soak" || plan.replay !== undefined) break;
      // Laws with fixed cases would only repeat them, and broken laws are already known.
      wanted = plan.laws.filter((law) => {
        const { status, isFixed } = results.get(law)!;
        return status === "kept" && !isFixed;
      });
    }
  } catch (error) {
    // An error of a listener ends the run, and must not leave a backend behind.
    await bench.close().catch(() => {});
    throw error;
  }
  const disposal: unknown = await bench.close().then(
    () => undefined,
    (error: unknown) => error,
  );
  return {
    ...{
      name: subject.name,
      plan,
      backend,
      results: [...results.values()],
      seeds,
      startedAt,
      note,
      disposal,
    },
    ...{ milliseconds: performance.now() - started, environment: environment() },
  };
}

/** Combines two trials of a law: broken if either is broken, finished if the first one was. */
function joined(before: LawResult, after: LawResult): LawResult {
  const measurements = merged([before.measurements, after.measurements]);
  const milliseconds = before.milliseconds + after.milliseconds;
  const decisive = after.status === "broken" ? after : before;
  return { ...decisive, measurements, worst: measurements.worst ?? 0, milliseconds };
}

/**
 * Runs the laws without a test runner and returns their results. Rejects if an option is bad, or if the
 * backend cannot be opened or disposed of.
 */
export async function runLaws(
  subject: Subject,
  onResult: (result: LawResult) => void = () => {},
): Promise<readonly LawResult[]> {
  const { results, disposal } = await runSuite(subject, { onResult });
  if (disposal !== undefined) throw disposal;
  return results;
}

/**
 * Tries one law on one case, as failures print it: a regression test in a line. Throws a `LawFailure` if the
 * law is broken, `INVALID_ARGUMENT` if there is no such law, and `UNSUPPORTED` if it does not bind the backend.
 */
export async function checkCase(subject: Subject, law: string, value: unknown): Promise<void> {
  const plan = planOf({ ...subject.options, replay: { law, seed: 1 } });
  const bench = new Bench(subject, { ...plan, replay: undefined });
  try {
    const trial = { seed: 1, ended: () => undefined, only: { case: value } };
    const { status, error, reason } = await bench.run(plan.laws[0]!, trial);
    if (status === "broken") throw error;
    if (status === "skipped")
      throw new BackendError("UNSUPPORTED", `checkCase: ${law} does not bind ${subject.name}: ${reason}`, {
        operation: "checkCase",
      });
  } finally {
    await bench.close();
  }
}

/** Returns a function that says why a run must end, by its time budget or signal, and undefined while it need not. */
function endOf({ timeBudget, signal }: Plan): () => string | undefined {
  const deadline = timeBudget === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeBudget;
  return () => {
    if (signal?.aborted) return "the run was stopped";
    return performance.now() > deadline
      ? `the time budget of ${timeBudget! / 1000} s was used up`
      : undefined;
  };
}

/** The means that runners offer to a running test: mocha as `this`, others as the first argument. */
interface TestControls {
  readonly skip?: (reason?: string) => void;
  readonly timeout?: (milliseconds: number) => void;
}

/** Skips the running test; some runners throw to do it. Returns false if the runner cannot skip. */
function skip(self: unknown, argument: unknown, reason: string | undefined): boolean {
  const controls = [self, argument] as readonly (TestControls | undefined)[];
  const test = controls.find((candidate) => typeof candidate?.skip === "function");
  test?.skip?.(reason);
  return test !== undefined;
}
