import {
  BackendError,
  checkNames,
  type DType,
  dtypes,
  type OperationName,
  operationNames,
} from "@backplane/core";
import { type Grade, type Law, lawId, type Replay } from "./law.js";
import { laws as allLaws } from "./laws/index.js";
import { literal } from "./literal.js";
import { defaultPatience } from "./patience.js";

/**
 * How much is tried. `quick`: few random cases per law, for every save of a file. `default`: for every
 * commit. `soak`: as `default`, with one seed after another until the time budget is used up.
 */
export type Mode = "quick" | "default" | "soak";

export const modes: readonly Mode[] = ["quick", "default", "soak"];
export const grades: readonly Grade[] = ["must", "tight"];

export interface SuiteOptions {
  /** Default: `default`. */
  readonly mode?: Mode;
  /** Start of the random search, a whole number. The same seed tries the same cases. Default: 1. */
  readonly seed?: number;
  /** Random cases per law. Default: 20; 3 in quick mode. */
  readonly runs?: number;
  /** Whether to look for a smaller case after a failure. Default: true. */
  readonly shrink?: boolean;
  /** The replay line of a failure. Runs only its law, starting at the case that broke it. */
  readonly replay?: Replay;
  /** The laws to choose from. Default: all. */
  readonly laws?: readonly Law[];
  /** Runs only laws on these operations; leaves out laws that concern no operation. */
  readonly operations?: readonly OperationName[];
  /** Runs only laws on these element types; leaves out laws that concern no single type. */
  readonly dtypes?: readonly DType[];
  /** Runs only laws whose id (see `lawId`) contains this text, in upper or lower case. */
  readonly law?: string;
  /** Which error bounds are required. Default: `must`. */
  readonly grade?: Grade;
  /**
   * No further case begins after this many milliseconds. Laws not reached are reported as `unfinished`, never
   * as kept. Default: no limit; 600,000 in soak mode.
   */
  readonly timeBudget?: number;
  /** Aborting it ends the run like a used-up time budget. */
  readonly signal?: AbortSignal;
  /**
   * A promise that stays open for this many milliseconds counts as one that never settles. This only guards
   * against hangs: choose more than any call takes on a slow and busy machine. Default: 300,000.
   */
  readonly patience?: number;
  /**
   * Milliseconds that the test runner grants each law, if it has such a setting. This only guards against
   * hangs, as the suite itself ends what hangs. Default: 3,600,000.
   */
  readonly timeout?: number;
}

/** Options with their defaults, and the laws that they select. */
export interface Plan {
  readonly mode: Mode;
  readonly seed: number;
  readonly runs: number;
  readonly shrink: boolean;
  readonly replay: Replay | undefined;
  readonly operations: readonly OperationName[] | undefined;
  readonly dtypes: readonly DType[] | undefined;
  readonly law: string | undefined;
  readonly grade: Grade;
  readonly timeBudget: number | undefined;
  readonly signal: AbortSignal | undefined;
  readonly patience: number;
  readonly timeout: number;
  /** In the order in which they run. Laws on one topic are next to each other. */
  readonly laws: readonly Law[];
}

const optionNames: readonly (keyof SuiteOptions)[] = [
  ...(["mode", "seed", "runs", "shrink", "replay", "laws", "operations", "dtypes"] as const),
  ...(["law", "grade", "timeBudget", "signal", "patience", "timeout"] as const),
];

/** Throws `INVALID_ARGUMENT`, with the allowed values, if an option has a bad value or an unknown name. */
export function planOf(options: SuiteOptions): Plan {
  checkNames("conformance", options, optionNames);
  const { replay, shrink = true, signal, law } = options;
  const mode = oneOf("mode", options.mode ?? "default", modes);
  const wholeNumber = (name: string, value: number, least: number) => {
    if (Number.isSafeInteger(value) && value >= least) return value;
    return refuse(name, value, `whole numbers${least === 0 ? " from 0" : least === 1 ? " from 1" : ""}`);
  };
  if (typeof shrink !== "boolean") refuse("shrink", shrink, "true and false");
  if (law !== undefined && typeof law !== "string") refuse("law", law, "a text");
  if (options.timeBudget !== undefined && !(options.timeBudget > 0))
    refuse("timeBudget", options.timeBudget, "milliseconds above 0");
  if (replay !== undefined) checkReplay(replay);
  const chosen: Omit<Plan, "laws"> = {
    mode,
    seed: wholeNumber("seed", replay?.seed ?? options.seed ?? 1, Number.NEGATIVE_INFINITY),
    runs: wholeNumber("runs", options.runs ?? (mode === "quick" ? 3 : 20), 1),
    shrink,
    replay,
    operations: someOf("operations", options.operations, operationNames),
    dtypes: someOf("dtypes", options.dtypes, dtypes),
    law,
    grade: oneOf("grade", options.grade ?? "must", grades),
    timeBudget: options.timeBudget ?? (mode === "soak" ? 600_000 : undefined),
    signal,
    patience: wholeNumber("patience", options.patience ?? defaultPatience, 1),
    timeout: wholeNumber("timeout", options.timeout ?? 3_600_000, 0),
  };
  return { ...chosen, laws: byTopic(select(options.laws ?? allLaws, chosen)) };
}

function select(laws: readonly Law[], plan: Omit<Plan, "laws">): readonly Law[] {
  const { replay, operations, dtypes, law: text } = plan;
  if (replay !== undefined) return [lawNamed(replay.law, laws, "replay")];
  const wanted = text?.toLowerCase();
  const selected = laws.filter(
    (law) =>
      (operations === undefined || (law.operation !== undefined && operations.includes(law.operation))) &&
      (dtypes === undefined || (law.dtype !== undefined && dtypes.includes(law.dtype))) &&
      (wanted === undefined || lawId(law).toLowerCase().includes(wanted)),
  );
  if (selected.length === 0 && laws.length > 0) {
    const filters = { operations, dtypes, law: text };
    refuse("laws", filters, "filters that leave at least one law");
  }
  return selected;
}

/** Returns the law with this id. Throws `INVALID_ARGUMENT`, with the most similar ids, if there is none. */
function lawNamed(id: string, laws: readonly Law[] = allLaws, argument = "law"): Law {
  const found = laws.find((law) => lawId(law) === id);
  if (found !== undefined) return found;
  const topic = laws.filter((law) => lawId(law).startsWith(String(id).split(":")[0]!)).map(lawId);
  const topics = [...new Set(laws.map((law) => lawId(law).split(":")[0]!))];
  return refuse(argument, id, topic.length > 0 ? topic.join("; ") : `laws on ${topics.join(", ")}`);
}

function checkReplay(replay: Replay): void {
  const { law, seed, path, replayPath } = replay ?? {};
  const isText = (value: unknown) => value === undefined || typeof value === "string";
  if (typeof law !== "string" || !Number.isSafeInteger(seed) || !isText(path) || !isText(replayPath))
    refuse("replay", replay, 'objects such as {"law":"gemm f32: ...","seed":1,"path":"3:0:1"}');
  checkNames("conformance", replay, ["law", "seed", "path", "replayPath"], "replay");
}

/** Brings laws on one topic together and keeps the order otherwise. */
function byTopic(laws: readonly Law[]): readonly Law[] {
  const topics = [...new Set(laws.map((law) => law.topic))];
  return topics.flatMap((topic) => laws.filter((law) => law.topic === topic));
}

function oneOf<Value extends string>(name: string, value: Value, allowed: readonly Value[]): Value {
  return allowed.includes(value) ? value : refuse(name, value, allowed.join(", "));
}

function someOf<Value extends string>(
  name: string,
  values: readonly Value[] | undefined,
  allowed: readonly Value[],
): readonly Value[] | undefined {
  if (values === undefined) return undefined;
  if (!Array.isArray(values) || values.length === 0)
    return refuse(name, values, `lists of ${allowed.join(", ")}`);
  return values.map((value) => oneOf(name, value, allowed));
}

function refuse(argument: string, value: unknown, allowed: string): never {
  // Some values have no literal; these are shown as they are.
  const shown = literal(value) ?? String(value);
  throw new BackendError("INVALID_ARGUMENT", `options.${argument} is ${shown}; allowed: ${allowed}`, {
    operation: "conformance",
    argument,
  });
}
