import { BackendError, type ComputeBackend, checkNames, type MemoryStatistics } from "@backplane/core";
import { breathe } from "../breath.js";
import { type MemorySample, memoryGauges, type Trend, trendOf } from "./flatness.js";
import { emptyTally, type Tally } from "./tally.js";
import { type Round, Walk, type WalkLimits } from "./walk.js";

export interface SoakOptions {
  /** How long, in minutes. Default 10. */
  readonly minutes?: number;
  /** Length in rounds of 40 calls, instead of a time: the work is then the same on fast and slow machines. */
  readonly rounds?: number;
  /** The same seed makes the same calls; only how many differs. Default 1. */
  readonly seed?: number;
  /** Ends the soak early; the work done until then is verified and reported. */
  readonly signal?: AbortSignal;
  /** Called at each sample of memory: every two seconds, and at least 32 times; of `rounds`, 32 times or after each. */
  readonly onSample?: (sample: MemorySample, tally: Readonly<Tally>) => void;
  /** Returns the memory of the process in bytes, if the caller can tell. May collect garbage first. */
  readonly processMemory?: () => Pick<MemorySample, "residentBytes" | "heapBytes" | "externalBytes">;
  /** Bytes that the backend may keep for later beside live memory (pools, staging, a heap). Default: 0. */
  readonly keptBytes?: number;
  readonly limits?: Partial<WalkLimits>;
}

export interface SoakReport {
  readonly backend: string;
  readonly device: string;
  readonly seed: number;
  readonly seconds: number;
  readonly tally: Tally;
  readonly samples: readonly MemorySample[];
  readonly trends: readonly Trend[];
  /** Taken after everything has been freed: nothing may be live. */
  readonly left: MemoryStatistics;
  /** Whether no result was wrong or lost, nothing was left live, and all memory that was read is flat. */
  readonly passed: boolean;
  /** Why not. */
  readonly reasons: readonly string[];
}

const defaultLimits: WalkLimits = {
  allocations: 48,
  liveBytes: 2 ** 26,
  largestBytes: 2 ** 23,
  elements: 2 ** 15,
  multiplications: 2 ** 19,
};

const limitNames = Object.keys(defaultLimits) as (keyof WalkLimits)[];
const optionNames: readonly (keyof SoakOptions)[] = [
  ...(["minutes", "rounds", "seed", "signal", "onSample", "processMemory", "keptBytes", "limits"] as const),
];

const stepsPerRound = 40;
/** Often enough for short soaks to have a trend. */
const sampleSeconds = 2;
const samplesAtLeast = 32;

/**
 * Exercises an initialised backend with random calls for a while: every operation and element type that it
 * has, allocations of random sizes, frees right after the last use, transfers at any byte, reads that overlap
 * later calls. Compares each result with the reference, on the bytes that its inputs really had. Also watches
 * memory; `trendOf` defines "flat". At half time it frees everything and repeats the same calls as often as
 * it takes to fill the second half. By then the backend has made whatever it makes once for each sort of
 * call, such as compiled kernels, so memory that still rises is a leak. Rejects with `INVALID_ARGUMENT` if an
 * option is bad. A call that fails is a reason in the report.
 */
export async function soak(backend: ComputeBackend, options: SoakOptions = {}): Promise<SoakReport> {
  checkNames("soak", options, optionNames);
  if (options.limits !== undefined) checkNames("soak", options.limits, limitNames, "limits");
  const { minutes = 10, rounds, seed = 1, signal, onSample = () => {}, processMemory = () => ({}) } = options;
  const { keptBytes = 0 } = options;
  if (!(minutes > 0)) refuse("minutes", minutes, "numbers above 0");
  if (rounds !== undefined && !(Number.isSafeInteger(rounds) && rounds > 0))
    refuse("rounds", rounds, "whole numbers from 1");
  if (rounds !== undefined && options.minutes !== undefined)
    refuse("rounds", rounds, "either minutes or rounds");
  const tally = emptyTally();
  const start = () => Walk.start(backend, seed, { ...defaultLimits, ...options.limits }, tally);
  const samples: MemorySample[] = [];
  const reasons: string[] = [];
  const faults: string[] = [];
  const stopListening = [
    backend.onError(({ message }) => faults.push(message)),
    backend.onLost(({ message }) => faults.push(message)),
  ];
  const started = performance.now();
  const elapsed = () => (performance.now() - started) / 1000;
  const sample = () => {
    const { liveBytes, reservedBytes } = backend.memory();
    const excessBytes = Math.max(reservedBytes - liveBytes - keptBytes, 0);
    samples.push({ seconds: elapsed(), liveBytes, reservedBytes, excessBytes, ...processMemory() });
    onSample(samples.at(-1)!, tally);
  };

  let done = 0;
  /** How much of the soak is over, from 0 to 1. */
  const share = () => (rounds === undefined ? elapsed() / (60 * minutes) : done / rounds);
  const sampleShare = 1 / samplesAtLeast;
  const interval = rounds === undefined ? Math.min(sampleSeconds / (60 * minutes), sampleShare) : sampleShare;
  let nextSample = interval / 2;
  let previous: Round | undefined;
  /** Rounds since the walk began. */
  let walked = 0;
  /** Rounds of the first half, from when on they are repeated. */
  let roundsToRepeat: number | undefined;
  try {
    let walk = await start();
    // At least one round, however little time there is.
    while ((done === 0 || share() < 1) && !signal?.aborted) {
      if (roundsToRepeat === undefined && walked > 0 && share() >= 0.5) roundsToRepeat = walked;
      if (walked === roundsToRepeat) {
        await previous?.verify();
        previous = undefined;
        await walk.end().verify();
        walk = await start();
        walked = 0;
      }
      done++;
      walked++;
      const round = walk.round(stepsPerRound);
      // The device works on this round while the last one is verified.
      await previous?.verify();
      previous = round;
      await breathe();
      if (share() < nextSample) continue;
      while (nextSample <= share()) nextSample += interval;
      sample();
    }
    await previous?.verify();
    await walk.end().verify();
    await backend.synchronize();
  } catch (error) {
    reasons.push(`a call failed: ${error instanceof Error ? error.message : String(error)}`);
  }
  for (const stop of stopListening) stop();

  const left = backend.memory();
  const trends = memoryGauges.flatMap((gauge) => trendOf(gauge, samples) ?? []);
  if (tally.wrong > 0) reasons.push(`${tally.wrong} of ${tally.results} results were wrong`);
  if (tally.results === 0) reasons.push("nothing was checked");
  if (faults.length > 0) reasons.push(`the backend reported ${faults.length} faults: ${faults[0]}`);
  if (reasons.length === 0 && left.liveAllocations > 0)
    reasons.push(`${left.liveAllocations} allocations were left live`);
  for (const { gauge, flat, rise, allowed } of trends)
    if (!flat)
      reasons.push(`${gauge} rose by ${mebibytes(rise)} in the second half; allowed: ${mebibytes(allowed)}`);
  return {
    ...{ backend: backend.name, device: deviceOf(backend), seed, seconds: elapsed(), tally, samples, trends },
    ...{ left, passed: reasons.length === 0, reasons },
  };
}

function refuse(argument: string, value: unknown, allowed: string): never {
  throw new BackendError("INVALID_ARGUMENT", `soak: ${argument} is ${value}; allowed: ${allowed}`, {
    operation: "soak",
    argument,
  });
}

function deviceOf({ capabilities }: ComputeBackend): string {
  const { name, details } = capabilities.device;
  return [name, details.description].filter((text) => text !== undefined && text !== "").join(", ");
}

export function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
