import type { ComputeBackend } from "@backplane/core";
import type { Anchor } from "./anchor.js";
import type { Case, Goal } from "./cases/case.js";
import type { SomeCases } from "./configurations.js";
import {
  type CheckedContender,
  type Contender,
  Expectations,
  openContender,
  openCopy,
  type Pace,
} from "./contender.js";
import type { Comparison, Missing, Peak, Ratio, Row } from "./result.js";
import { quantile, ratios, stableSpread, summarise } from "./statistics.js";

/** A configuration that has been opened. */
export interface Subject {
  readonly name: string;
  readonly backend: ComputeBackend;
  /** Bytes a second of a device copy. */
  readonly copyBandwidth: number;
  /** Whether matrix units are in use. */
  readonly matrices: boolean;
  /** Only cases that matrix units have a part in. */
  readonly only?: SomeCases | undefined;
}

export interface Conditions {
  readonly pace: Pace;
  readonly rounds: number;
  readonly anchor?: Anchor;
  readonly peak?: Peak;
}

export interface CaseResult {
  readonly rows: readonly Row[];
  readonly missing: readonly Missing[];
}

/** Whether a case is meant for a configuration. */
export function takes({ matrices, only }: Pick<Subject, "matrices" | "only">, test: Case): boolean {
  if (test.matrices !== undefined && test.matrices !== matrices) return false;
  if (only === "f32 products") return test.dtype === "f32" && isSplit(test);
  if (only === "3x3 convolutions") return isTransformed(test);
  return only === undefined || test.dtype === "f16";
}

/** A convolution that the option `f32Products` makes a difference to has so many floating-point operations. */
const SPLIT_FLOPS = 1e10;

/** Whether the option `f32Products` makes a difference to a case in f32. */
function isSplit(test: Case): boolean {
  const { operation, name, cost } = test;
  if (operation === "attention") return !/mask/.test(name);
  if (operation === "gemm" || operation === "batchedGemm") return true;
  return isTransformed(test) && cost.flops >= SPLIT_FLOPS;
}

/** Whether the option `transformedConvolutions` makes a difference to a case. */
function isTransformed({ operation, name }: Case): boolean {
  return (operation === "conv2d" || operation === "conv2dInputGradient") && /, 3x3 (?!stride)/.test(name);
}

interface Other extends Contender {
  readonly samples: number[];
  readonly name: string;
  /** Our work over the other's: 1 if both do the same. */
  readonly work: number;
}

interface Entry {
  readonly subject: Subject;
  readonly ours: CheckedContender;
  /** What its goal is about. Undefined if there is nothing to compare with. */
  other: Other | undefined;
  /** The anchor, if the goal is about something else. */
  anchor: Other | undefined;
  readonly samples: number[];
}

/** The places for others in an entry. */
const places = ["other", "anchor"] as const;

/**
 * Checks one case on every subject, then times them and their comparisons in turns, so that a disturbance of
 * the machine affects all of them.
 */
export async function measureCase(
  test: Case,
  subjects: readonly Subject[],
  conditions: Conditions,
): Promise<CaseResult> {
  const missing: Missing[] = [];
  const note = (configuration: string, error: unknown, failed: boolean) => {
    const reason = error instanceof Error ? error.message : String(error);
    missing.push({ case: test.name, configuration, reason, failed });
  };
  const expected = new Expectations(test);
  const entries: Entry[] = [];
  const others = new Map<string, Other>();
  try {
    for (const subject of subjects)
      try {
        const ours = await openContender(subject.backend, test, expected);
        entries.push({ subject, ours, other: undefined, anchor: undefined, samples: [] });
      } catch (error) {
        note(subject.name, error, true);
      }
    for (const entry of entries)
      for (const place of places)
        try {
          const against = place === "other" ? test.goal : anchorBeside(test, conditions);
          entry[place] = await findOther(test, against, entry.subject, conditions, others);
        } catch (error) {
          note(entry.subject.name, error, false);
        }
    const rows: Row[] = [];
    for (const entry of await timeInTurns(entries, { ...conditions, pace: paceOf(test, conditions) }, note))
      rows.push(makeRow(test, entry, conditions.peak));
    return { rows, missing };
  } finally {
    for (const { ours } of entries) await ours.close();
    // An anchor that has ended has been noted already.
    for (const other of others.values()) await Promise.resolve(other.close()).catch(() => {});
  }
}

/**
 * Seconds. Products in f16 on matrix units draw more power than a card may draw for long, and its clock follows
 * within some 100 ms. A short sample of PyTorch's is over before the clock is lowered, and the next contender
 * starts with the lowered clock. On an NVIDIA H200 (4096^3, TFLOP/s) ours had 261 to 278, and PyTorch 641 to
 * 716, after 12.5 ms; after 150 ms 315 to 335 and 617 to 666, as in samples of 600 ms (322 and 629).
 */
const settling = 0.15;

const multiplies: readonly string[] = [
  ...["gemm", "batchedGemm", "quantizedGemm", "attention", "attentionGradient"],
  ...["conv2d", "conv2dInputGradient", "conv2dFilterGradient"],
];

/** Returns the pace of a case: a longer warm-up if PyTorch uses matrix units. */
function paceOf({ operation, dtype }: Case, { pace, anchor }: Conditions): Pace {
  if (anchor === undefined || dtype !== "f16" || !multiplies.includes(operation)) return pace;
  return { ...pace, warmUp: Math.max(pace.warmUp, settling) };
}

/**
 * Samples that everybody takes before the first that counts. Results of large cases are checked on the host for seconds; meanwhile
 * a GPU lowers its clocks, and needs some 100 ms to raise them: an NVIDIA H200 copied at a quarter of its rate.
 */
const WAKING_SAMPLES = 8;

/** Fills in the samples. Returns the entries that succeeded; an entry whose other contender failed has none. */
async function timeInTurns(
  entries: readonly Entry[],
  { pace, rounds }: Conditions,
  note: (configuration: string, error: unknown, failed: boolean) => void,
): Promise<readonly Entry[]> {
  const timed = new Set(entries);
  const waking: Pace = { sample: pace.sample, warmUp: WAKING_SAMPLES * pace.sample };
  for (const entry of timed)
    try {
      await entry.ours.sample(waking);
    } catch (error) {
      note(entry.subject.name, error, true);
      timed.delete(entry);
    }
  for (let round = 0; round < rounds; round++) {
    for (const entry of timed)
      try {
        entry.samples.push(await entry.ours.sample(pace));
      } catch (error) {
        note(entry.subject.name, error, true);
        timed.delete(entry);
      }
    for (const other of new Set([...timed].flatMap((entry) => places.map((place) => entry[place]))))
      try {
        if (other !== undefined) other.samples.push(await other.sample(pace));
      } catch (error) {
        for (const entry of timed)
          for (const place of places) {
            if (entry[place] !== other) continue;
            note(entry.subject.name, error, false);
            entry[place] = undefined;
          }
      }
  }
  return [...timed];
}

type Against = { readonly against: "torch" } | Goal;

/** The anchor does every case that it can, whatever its goal is about. */
function anchorBeside({ goal }: Case, { anchor }: Conditions): Against | undefined {
  return anchor === undefined || goal?.against === "torch" ? undefined : { against: "torch" };
}

/** Returns the comparison of a case on one subject. One that does not depend on the subject is opened once. */
async function findOther(
  test: Case,
  goal: Against | undefined,
  subject: Subject,
  { anchor }: Conditions,
  others: Map<string, Other>,
): Promise<Other | undefined> {
  if (goal === undefined || goal.against === "time") return undefined;
  const key = goal.against === "torch" ? "torch" : `${goal.against} on ${subject.name}`;
  const known = others.get(key);
  if (known !== undefined) return known;
  let other: Other;
  if (goal.against === "torch") {
    if (anchor === undefined) throw new Error("no anchor was given");
    other = { name: "torch", work: 1, samples: [], ...bound(await anchor.open(test)) };
  } else if (goal.against === "copy") {
    const copy = openCopy(subject.backend);
    other = { name: "copy", work: test.cost.bytes / copy.bytes, samples: [], ...bound(copy) };
  } else {
    const contender = await openContender(subject.backend, goal.other, new Expectations(goal.other));
    const work = test.cost.flops / goal.other.cost.flops;
    other = { name: goal.other.name, work, samples: [], ...bound(contender) };
  }
  others.set(key, other);
  return other;
}

function bound(contender: Contender): Contender {
  return { sample: (pace) => contender.sample(pace), close: () => contender.close() };
}

function makeRow(test: Case, entry: Entry, peak: Peak | undefined): Row {
  const { subject, ours, samples } = entry;
  const { median, spread } = summarise(samples);
  const comparison = compare(test, entry);
  const anchor = entry.anchor && ratioTo(entry.anchor, samples);
  const floor = floorSeconds(test, subject, peak);
  return {
    case: test.name,
    operation: test.operation,
    dtype: test.dtype,
    configuration: subject.name,
    ...test.cost,
    median,
    best: Math.min(...samples),
    samples,
    spread,
    worstError: ours.worstError,
    ...(floor === undefined ? {} : { ofFloor: floor / median }),
    ...(comparison === undefined ? {} : { comparison }),
    ...(anchor === undefined ? {} : { anchor }),
    // If both slow down alike, their ratio still tells.
    unstable: (comparison?.spread ?? spread) > stableSpread,
    ...(test.curve === undefined ? {} : { curve: test.curve }),
  };
}

function compare({ goal }: Case, { other, samples }: Entry): Comparison | undefined {
  if (goal === undefined) return undefined;
  const { atLeast } = goal;
  if (goal.against === "time") {
    const seconds = goal.microseconds / 1e6;
    const name = goal.by ?? `${goal.microseconds} us`;
    return { ...ratioTo({ name, samples: samples.map(() => seconds), work: 1 }, samples), atLeast };
  }
  return other && { ...ratioTo(other, samples), atLeast };
}

function ratioTo(
  { name, samples: others, work }: Pick<Other, "name" | "samples" | "work">,
  ours: readonly number[],
): Ratio {
  const { median: ratio, spread } = summarise(ratios(ours, others, work));
  const best = Math.min(...others);
  const bestRatio = (work * best) / Math.min(...ours);
  return { against: name, median: quantile(others, 0.5), best, samples: others, ratio, bestRatio, spread };
}

/** Returns the least time for moving the bytes or doing the arithmetic, whichever takes longer. */
function floorSeconds(test: Case, subject: Subject, peak: Peak | undefined): number | undefined {
  // Neither rate says anything of calls and transfers.
  if (test.operation === "small operation" || test.operation === "transfer") return undefined;
  const memory = test.cost.bytes / subject.copyBandwidth;
  if (["reduce", "unary", "binary"].includes(test.operation)) return memory;
  if (peak === undefined) return undefined;
  // A product of f32 on matrix units is three of f16.
  const f32 = subject.only === "f32 products" ? peak.f16 / 3 : peak.f32;
  const rate = subject.matrices && test.dtype === "f16" ? peak.f16 : f32;
  return Math.max(memory, test.cost.flops / rate);
}
