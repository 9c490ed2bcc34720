import { BackendError, type OperationName } from "@backplane/core";
import type { DeviceFeatures } from "../device/index.js";
import type { TuningEntry } from "./data.js";
import type { TuningDevice } from "./device.js";
import { difference, Operands, operandBytes } from "./operands.js";
import { observed, programsOf, type ShapeChoice, type TaskCollector, type TuningTask } from "./rehearsal.js";
import type { DroppedVariant, SkippedShape, TuneOptions } from "./report.js";
import { shapeText } from "./shapes.js";

const DEFAULT_MAX_BYTES = 2 ** 30;
const DEFAULT_MARGIN = 0.03;

/** Each candidate is timed once in each round, so that all see the same clocks. */
const ROUNDS = 7;

/** The time of a candidate in a round: long compared with the steps of coarse timestamps, and with a wait. */
const ROUND_SECONDS = 0.01;
const MOST_REPEATS = 512;

/** A variant that at first is slower than the fastest by this factor is dropped; coarse timestamps are allowed for. */
const HOPELESS = { factor: 3, seconds: 200e-6 } as const;

/** Drivers reset devices that are busy with one dispatch for two seconds and more. */
const LONGEST_SECONDS = 0.25;

/** An idle GPU needs work for about as long before its clocks are up. */
const WARM_MILLISECONDS = 300;

/** The parts that tests replace. */
export interface TuningMeans {
  /** Milliseconds since some moment. */
  readonly now?: () => number;
  /** Shapes that take longer by default are skipped. */
  readonly longestSeconds?: number;
  /** Seconds that one run of a variant takes; `time` measures this many runs of it. */
  readonly measure?: (
    candidate: { readonly operation: OperationName; readonly shape: object; readonly variant: string },
    repeats: number,
    time: () => Promise<number>,
  ) => Promise<number>;
}

export interface Findings {
  readonly entries: TuningEntry[];
  readonly skipped: SkippedShape[];
  readonly dropped: DroppedVariant[];
}

/** Why a shape is given up. */
class Skip {
  readonly reason: string;

  constructor(reason: string) {
    this.reason = reason;
  }
}

/** Tries, for each choice that the tasks need, all variants that fit, and finds the fastest. */
export class Tuner {
  readonly #device: TuningDevice;
  readonly #options: TuneOptions;
  readonly #now: () => number;
  readonly #measure: NonNullable<TuningMeans["measure"]>;
  readonly #longestSeconds: number;
  readonly #began: number;
  readonly #findings: Findings = { entries: [], skipped: [], dropped: [] };
  /** Choices that need no more trying, with the variant to use if there is one. */
  readonly #done = new Map<string, string | undefined>();
  #isWarm = false;

  constructor(device: TuningDevice, options: TuneOptions, means: TuningMeans) {
    this.#device = device;
    this.#options = options;
    this.#now = means.now ?? (() => performance.now());
    this.#measure = means.measure ?? ((_, repeats, time) => time().then((seconds) => seconds / repeats));
    this.#longestSeconds = means.longestSeconds ?? LONGEST_SECONDS;
    this.#began = this.#now();
  }

  async run({ tasks, keys }: Pick<TaskCollector, "tasks" | "keys">): Promise<Findings> {
    this.#assertWanted();
    // A winner may need choices that the default did not need.
    const known = new Set(keys);
    let done = 0;
    for (const task of tasks)
      for (let choice = this.#next(task); choice !== undefined; choice = this.#next(task)) {
        known.add(choice.key);
        this.#assertWanted();
        this.#done.set(choice.key, await this.#tune(task, choice));
        this.#options.onProgress?.(++done, known.size);
      }
    return this.#findings;
  }

  /** The first choice that a task needs, the winners so far given, and that nobody has looked into. */
  #next({ operation, problem }: TuningTask): ShapeChoice | undefined {
    const { features, choices } = observed(this.#features(), this.#device.shapes);
    this.#device.plan(features).kernels[operation]!.run(problem as never);
    return choices.find(({ key, possible }) => possible.length > 1 && !this.#done.has(key));
  }

  /** Features that make kernels take the winners so far, and `variant` for the choice. */
  #features(choice?: ShapeChoice, variant?: string): DeviceFeatures {
    const variantFor = (operation: OperationName, shape: unknown): string | undefined => {
      const key = this.#device.shapes.key(operation, shape as object);
      return key === choice?.key ? variant : this.#done.get(key);
    };
    return { ...this.#device.features, tuned: { variantFor } };
  }

  async #tune(task: TuningTask, choice: ShapeChoice): Promise<string | undefined> {
    const { operation, shape } = choice;
    const operands = new Operands(this.#device, task);
    try {
      this.#assertWorthwhile(task, choice);
      operands.place();
      await this.#device.synchronize();
      const entry = await this.#compare(operands, choice);
      if (entry === undefined) return undefined;
      this.#findings.entries.push(entry);
      this.#device.log(line(entry));
      return entry.variant;
    } catch (error) {
      const reason = error instanceof Skip ? error.reason : refusalOf(error);
      this.#findings.skipped.push({ operation, shape, reason });
      this.#device.log(`webgpu: not tuned: ${operation} (${shapeText(shape)}): ${reason}`);
      return undefined;
    } finally {
      operands.free();
      this.#device.giveBack();
    }
  }

  #assertWorthwhile(task: TuningTask, { forced }: ShapeChoice): void {
    if (forced) throw new Skip("forced by the option variants");
    this.#assertInTime();
    const { maxBytes = DEFAULT_MAX_BYTES } = this.#options;
    const bytes = operandBytes(task.problem);
    if (bytes > maxBytes) throw new Skip(`its operands have ${bytes} bytes, and maxBytes is ${maxBytes}`);
  }

  #assertInTime(): void {
    this.#assertWanted();
    const { budgetMilliseconds = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#now() - this.#began >= budgetMilliseconds) throw new Skip("the time budget was spent");
  }

  #assertWanted(): void {
    const { signal } = this.#options;
    if (signal?.aborted) throw new Abortion(signal.reason);
  }

  async #compare(operands: Operands, choice: ShapeChoice): Promise<TuningEntry | undefined> {
    const { operation, shape, variant: defaultVariant } = choice;
    const sane = await this.#saneVariants(operands, choice);
    if (sane.length < 2) return undefined;
    const times = await this.#times(operands, choice, sane);
    const [defaultSeconds, [variant, seconds]] = [times.get(defaultVariant)!, fastest(times)];
    const { margin = DEFAULT_MARGIN } = this.#options;
    const isBetter = seconds <= (1 - margin) * defaultSeconds;
    return {
      ...{ operation, shape },
      ...(isBetter ? { variant, seconds } : { variant: defaultVariant, seconds: defaultSeconds }),
      ...{ defaultVariant, defaultSeconds },
    };
  }

  /** Returns the default, and those of the others that compile and agree with it. */
  async #saneVariants(operands: Operands, choice: ShapeChoice): Promise<string[]> {
    const { variant: defaultVariant, possible, operation, shape } = choice;
    const others = possible.filter((name) => name !== defaultVariant);
    const compiled = await this.#compile(operands.task, choice);
    const results = async (variant: string): Promise<Float64Array> => {
      this.#assertInTime();
      await compiled.get(variant);
      return this.#results(operands, this.#features(choice, variant));
    };
    const expected = await results(defaultVariant);
    await this.#assertQuick(operands, choice);
    const sane = [defaultVariant];
    for (const variant of others) {
      const reason = await results(variant).then(
        (got) => difference(got, expected, operands.task.problem.dtype),
        refusalOf,
      );
      if (reason === undefined) sane.push(variant);
      else {
        this.#findings.dropped.push({ operation, shape, variant, reason });
        this.#device.log(`webgpu: ${operation} never takes ${variant} (${shapeText(shape)}): it ${reason}`);
      }
    }
    return sane;
  }

  /**
   * A problem that is merely slow by default may take so long with another variant that the driver resets the device.
   */
  async #assertQuick(operands: Operands, choice: ShapeChoice): Promise<void> {
    const features = this.#features(choice, choice.variant);
    let seconds = Number.POSITIVE_INFINITY;
    // Something else may have come between.
    for (let attempt = 0; attempt < 3 && seconds > this.#longestSeconds; attempt++)
      seconds = await this.#device.time(() => this.#repeat(operands, features, 1));
    if (seconds > this.#longestSeconds)
      throw new Skip(`it takes ${(1000 * seconds).toFixed(0)} ms by default, so others may take too long`);
  }

  /** Compiles all variants side by side. Returns, for each, whether its compilation succeeded or failed. */
  async #compile(task: TuningTask, choice: ShapeChoice): Promise<ReadonlyMap<string, Promise<void>>> {
    const device = this.#device;
    const compiled = new Map(
      choice.possible.map((variant) => {
        const programs = programsOf(device.plan(this.#features(choice, variant)), task);
        return [variant, device.prepare(programs)] as const;
      }),
    );
    const results = await Promise.allSettled(compiled.values());
    // Consume the other reports of refused programs, so that no other caller receives them.
    if (results.some(({ status }) => status === "rejected")) await device.synchronize().catch(refusalOf);
    return compiled;
  }

  /** Returns the results of a problem, from the same operands each time. */
  async #results(operands: Operands, features: DeviceFeatures): Promise<Float64Array> {
    operands.reset();
    this.#device.run(operands.task, features);
    await this.#device.synchronize();
    return operands.results();
  }

  /** Medians, by variant. */
  async #times(
    operands: Operands,
    choice: ShapeChoice,
    variants: readonly string[],
  ): Promise<Map<string, number>> {
    await this.#warmUp(operands, choice);
    const first = new Map<string, number>();
    for (const variant of variants) first.set(variant, await this.#time(operands, choice, variant, 1));
    const [, least] = fastest(first);
    const bound = HOPELESS.factor * least + HOPELESS.seconds;
    const promising = variants.filter((name) => name === choice.variant || first.get(name)! <= bound);
    const repeats = Math.min(Math.max(Math.ceil(ROUND_SECONDS / least), 1), MOST_REPEATS);
    const rounds = new Map(promising.map((variant) => [variant, [] as number[]]));
    for (let round = 0; round < ROUNDS; round++)
      for (const i of promising.keys()) {
        // Nobody always comes after the same one.
        const variant = promising[(i + round) % promising.length]!;
        rounds.get(variant)!.push(await this.#time(operands, choice, variant, repeats));
      }
    return new Map(Array.from(rounds, ([variant, seconds]) => [variant, median(seconds)]));
  }

  async #time(operands: Operands, choice: ShapeChoice, variant: string, repeats: number): Promise<number> {
    this.#assertInTime();
    const { operation, shape } = choice;
    const features = this.#features(choice, variant);
    return this.#measure({ operation, shape, variant }, repeats, () =>
      this.#device.time(() => this.#repeat(operands, features, repeats)),
    );
  }

  #repeat(operands: Operands, features: DeviceFeatures, repeats: number): void {
    for (let i = 0; i < repeats; i++) this.#device.run(operands.task, features);
  }

  async #warmUp(operands: Operands, choice: ShapeChoice): Promise<void> {
    if (this.#isWarm) return;
    const features = this.#features(choice, choice.variant);
    const began = this.#now();
    for (let repeats = 1; this.#now() - began < WARM_MILLISECONDS; repeats = Math.min(2 * repeats, 64)) {
      this.#assertInTime();
      this.#repeat(operands, features, repeats);
      await this.#device.synchronize();
    }
    this.#isWarm = true;
  }
}

/** Carries the reason of an `AbortSignal`, which the caller receives. */
export class Abortion {
  readonly reason: unknown;

  constructor(reason: unknown) {
    this.reason = reason;
  }
}

/** Returns the device's objection to something of ours. Throws anything else, such as a loss. */
function refusalOf(error: unknown): string {
  const isOurs =
    error instanceof BackendError &&
    (error.code === "OUT_OF_MEMORY" || error.code === "DEVICE_ERROR") &&
    error.operation === "tune";
  if (!isOurs) throw error;
  return `fails: ${error.message}`;
}

function fastest(times: ReadonlyMap<string, number>): readonly [variant: string, seconds: number] {
  return [...times].reduce((best, candidate) => (candidate[1] < best[1] ? candidate : best));
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

function line({ operation, shape, variant, seconds, defaultVariant, defaultSeconds }: TuningEntry): string {
  const microseconds = (value: number): string => `${(1e6 * value).toFixed(1)} us`;
  const against =
    variant === defaultVariant
      ? ", the default"
      : `; the default ${defaultVariant} ${microseconds(defaultSeconds)}`;
  return `webgpu: tuned ${operation} (${shapeText(shape)}): ${variant} takes ${microseconds(seconds)}${against}`;
}
