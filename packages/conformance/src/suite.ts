import type { ComputeBackend } from "@backplane/core";
import { forAll, forEach, type SearchOptions } from "./check.js";
import { type Law, type LawContext, lawId, type Replay } from "./law.js";
import { laws as allLaws } from "./laws/index.js";

/** A backend under test. */
export interface Subject {
  readonly name: string;
  /** A new instance, independent of all others, before `init()`. */
  readonly create: () => ComputeBackend | Promise<ComputeBackend>;
  readonly options?: SuiteOptions;
}

export interface SuiteOptions {
  /** Where the random search starts. Default 1; the same seed tries the same cases. */
  readonly seed?: number;
  /** Random cases per law. Default 20. */
  readonly runs?: number;
  /** Whether to look for a smaller case after a failure. Default true. */
  readonly shrink?: boolean;
  /** From a failure's replay line: only that law runs, at once on the case that broke it. */
  readonly replay?: Replay;
  /** Default: all. */
  readonly laws?: readonly Law[];
  /** Milliseconds that the test runner should grant each law, where it can be told. Default 300,000. */
  readonly timeout?: number;
}

/** The functions of a test runner: mocha's as they are; elsewhere `before` may be called `beforeAll`. */
export interface Runner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: (...args: unknown[]) => Promise<void>): unknown;
  before(body: () => Promise<void>): unknown;
  after(body: () => Promise<void>): unknown;
}

export interface LawResult {
  readonly law: Law;
  readonly status: "kept" | "broken" | "skipped";
  /** Why it was skipped. */
  readonly reason?: string;
  /** How it was broken. */
  readonly error?: unknown;
  /** The largest part of a tolerance that a result used: 1 is all of it. */
  readonly worst: number;
  readonly milliseconds: number;
}

/** Registers one test per law with a test runner. */
export function describeBackend(subject: Subject, runner: Runner): void {
  const options = subject.options ?? {};
  runner.describe(`${subject.name} keeps the laws of a compute backend`, () => {
    const bench = new Bench(subject);
    runner.before(() => bench.open());
    runner.after(() => bench.close());
    for (const [topic, laws] of byTopic(selected(options))) {
      runner.describe(topic, () => {
        for (const law of laws) {
          const title = law.dtype === undefined ? law.name : `${law.dtype}: ${law.name}`;
          runner.it(title, async function (this: unknown, ...args: unknown[]): Promise<void> {
            const test = (this ?? args[0]) as TestControls | undefined;
            if (typeof test?.timeout === "function") test.timeout(options.timeout ?? 300_000);
            const result = await bench.run(law);
            if (result.status === "broken") throw result.error;
            if (result.status === "skipped") skip(this, args[0], result.reason);
          });
        }
      });
    }
  });
}

/** Runs the laws without a test runner and says how each fared; rejects only where a kept backend cannot be disposed of. */
export async function runLaws(
  subject: Subject,
  onResult: (result: LawResult) => void = () => {},
): Promise<LawResult[]> {
  const results: LawResult[] = [];
  const bench = new Bench(subject);
  for (const [, laws] of byTopic(selected(subject.options ?? {})))
    for (const law of laws) {
      const result = await bench.run(law);
      results.push(result);
      onResult(result);
    }
  await bench.close();
  return results;
}

/** One initialised backend that the laws share; replaced after a law was broken on it. */
class Bench {
  readonly #subject: Subject;
  readonly #search: SearchOptions;
  #backend: ComputeBackend | undefined;

  constructor(subject: Subject) {
    this.#subject = subject;
    const { seed, runs, shrink, replay } = subject.options ?? {};
    this.#search = { seed: replay?.seed ?? seed ?? 1, runs: runs ?? 20, shrink: shrink ?? true, replay };
  }

  async open(): Promise<void> {
    if (this.#backend !== undefined) return;
    const backend = await this.#subject.create();
    await backend.init();
    this.#backend = backend;
  }

  async close(): Promise<void> {
    const backend = this.#backend;
    this.#backend = undefined;
    await backend?.dispose();
  }

  async run(law: Law): Promise<LawResult> {
    const started = performance.now();
    const created: ComputeBackend[] = [];
    let worst = 0;
    const finish = (result: Pick<LawResult, "status" | "reason" | "error">): LawResult => ({
      law,
      ...result,
      worst,
      milliseconds: performance.now() - started,
    });
    try {
      await this.open();
      const backend = this.#backend!;
      const reason = exemption(law, backend);
      if (reason !== undefined) return finish({ status: "skipped", reason });
      const unopened = async () => {
        const instance = await this.#subject.create();
        created.push(instance);
        return instance;
      };
      const fresh = async () => {
        const instance = await unopened();
        await instance.init();
        return instance;
      };
      const context: LawContext = {
        law,
        backend,
        fresh,
        unopened,
        forAll: (arbitrary, property, options) => forAll(law, this.#search, arbitrary, property, options),
        forEach: (cases, property) => forEach(law, this.#search, cases, property),
        observe: (ratio) => {
          if (!(ratio <= worst)) worst = ratio;
        },
        replayPath: this.#search.replay?.replayPath,
      };
      await law.run(context);
      const { liveAllocations } = backend.memory();
      if (liveAllocations !== 0) throw new Error(`${lawId(law)}: left ${liveAllocations} allocations live`);
      return finish({ status: "kept" });
    } catch (error) {
      // What a broken law leaves behind must not break the next one.
      await this.close().catch(() => {});
      return finish({ status: "broken", error });
    } finally {
      for (const instance of created) await instance.dispose().catch(() => {});
    }
  }
}

/** Why a law does not bind a backend, from what the backend declares. */
function exemption(law: Law, backend: ComputeBackend): string | undefined {
  const { operation, dtype } = law;
  if (operation !== undefined && dtype !== undefined && !backend.supports(operation, dtype))
    return `${operation} in ${dtype} is not supported`;
  return law.exempt?.(backend.capabilities, backend);
}

function selected(options: SuiteOptions): readonly Law[] {
  const laws = options.laws ?? allLaws;
  const { replay } = options;
  if (replay === undefined) return laws;
  const chosen = laws.filter((law) => lawId(law) === replay.law);
  if (chosen.length === 0) throw new Error(`There is no law named ${JSON.stringify(replay.law)}`);
  return chosen;
}

function byTopic(laws: readonly Law[]): Map<string, Law[]> {
  const topics = new Map<string, Law[]>();
  for (const law of laws) {
    const list = topics.get(law.topic);
    if (list === undefined) topics.set(law.topic, [law]);
    else list.push(law);
  }
  return topics;
}

/** What runners offer to a running test: mocha as `this`, others as the first argument. */
interface TestControls {
  readonly skip?: (reason?: string) => void;
  readonly timeout?: (milliseconds: number) => void;
}

function skip(self: unknown, argument: unknown, reason: string | undefined): void {
  const controls = [self, argument] as readonly (TestControls | undefined)[];
  const test = controls.find((candidate) => typeof candidate?.skip === "function");
  test?.skip?.(reason);
}
