import { checkNames } from "@backplane/core";
import { type Arbitrary, asyncProperty, check, stringify } from "fast-check";
import { breathe } from "./breath.js";
import { type ForAllOptions, type ForEachOptions, type Law, LawFailure, lawId, type Replay } from "./law.js";
import { literal } from "./literal.js";
import type { Recorder } from "./measurements.js";
import { Hung, settledAsWhole } from "./patience.js";

/** How hard to search for a failing case. */
export interface SearchOptions {
  readonly isQuick: boolean;
  readonly seed: number;
  /** Random cases per law. */
  readonly runs: number;
  /** Whether to look for a smaller case after a failure. */
  readonly shrink: boolean;
  readonly replay: Replay | undefined;
  /** Try only this case, instead of those that the law would try. */
  readonly only: { readonly case: unknown } | undefined;
  readonly recorder: Recorder;
  /** Returns why the search must end before its next case; undefined if it need not. */
  readonly ended: () => string | undefined;
}

/** Thrown if a law was cut short before a case broke it. */
export class Unfinished extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Unfinished";
  }
}

/** Shrinking stops after this many milliseconds, and the smallest case found so far is reported. */
const shrinkMilliseconds = 4000;

/** Searches for a case that breaks the property; throws a `LawFailure` with the smallest one found. */
export async function forAll<Case>(
  law: Law,
  search: SearchOptions,
  arbitrary: Arbitrary<Case>,
  property: (value: Case) => Promise<void>,
  options: ForAllOptions<Case> = {},
): Promise<void> {
  checkNames("forAll", options, ["examples", "runs", "show"]);
  const { replay, recorder, only } = search;
  if (only !== undefined) {
    await forEach(law, search, [], property);
    return;
  }
  const runs = Math.max(1, Math.ceil(search.runs * (options.runs ?? 1)));
  const total = (options.examples?.length ?? 0) + runs;
  let shrinkUntil = Number.POSITIVE_INFINITY;
  let tried = 0;
  let cut: string | undefined;
  const details = await check(
    asyncProperty(arbitrary, async (value) => {
      // To end shrinking, or the search itself, in time, every further candidate counts as passed.
      if (cut !== undefined || performance.now() > shrinkUntil) return;
      const isShrinking = shrinkUntil !== Number.POSITIVE_INFINITY;
      if (!isShrinking) {
        await breathe();
        cut = search.ended();
        if (cut !== undefined) return;
        tried++;
      }
      recorder.countCase();
      try {
        await settledAsWhole(property(value), "the case");
      } catch (error) {
        recorder.stop();
        // A case that hangs is not shrunk: similar cases would hang as long.
        if (error instanceof Hung) shrinkUntil = Number.NEGATIVE_INFINITY;
        else if (!isShrinking) shrinkUntil = performance.now() + shrinkMilliseconds;
        throw error;
      }
    }),
    {
      seed: lawSeed(law, search.seed),
      numRuns: total,
      examples: (options.examples ?? []).map((value): [Case] => [value]),
      endOnFailure: !search.shrink || replay?.path !== undefined,
      ...(replay?.path === undefined ? {} : { path: replay.path }),
    },
  );
  if (!details.failed) {
    if (cut !== undefined) throw new Unfinished(`${cut} after ${tried} of ${total} cases`);
    return;
  }
  const found = details.counterexample;
  const path = details.counterexamplePath ?? undefined;
  const cause = details.errorInstance ?? new Error(`no case could be made in ${details.numRuns} runs`);
  if (found === null) throw failure(law, search, path, cause);
  throw failure(law, search, path, cause, shownCase(found[0], options.show));
}

/** Tries every case in turn; throws a `LawFailure` for the first that breaks the property. */
export async function forEach<Case>(
  law: Law,
  search: SearchOptions,
  cases: readonly Case[],
  property: (value: Case) => Promise<void>,
  options: ForEachOptions = {},
): Promise<void> {
  checkNames("forEach", options, ["quick"]);
  const { recorder, only } = search;
  const path = only === undefined ? search.replay?.path : undefined;
  const few = search.isQuick && path === undefined ? cases.slice(0, options.quick ?? cases.length) : cases;
  const chosen = only === undefined ? few : [only.case as Case];
  // Compare the text, not its number: the path "01" would select no case, and the law would count as kept.
  if (path !== undefined && !Object.keys(cases).includes(path))
    throw new Error(`the path ${path} leads to no case of this law; it has ${cases.length}`);
  for (const [index, value] of chosen.entries()) {
    if (path !== undefined && path !== String(index)) continue;
    await breathe();
    const cut = search.ended();
    if (cut !== undefined) throw new Unfinished(`${cut} after ${index} of ${chosen.length} cases`);
    recorder.countCase();
    try {
      await settledAsWhole(property(value), "the case");
    } catch (error) {
      recorder.stop();
      const at = only === undefined ? String(index) : undefined;
      throw failure(law, search, at, error, shownCase(value));
    }
  }
}

function failure(
  law: Law,
  search: SearchOptions,
  path: string | undefined,
  cause: unknown,
  shown?: ShownCase,
): LawFailure {
  const replay: Replay = { law: lawId(law), seed: search.seed, ...(path === undefined ? {} : { path }) };
  return new LawFailure(replay, cause, shown?.text, shown?.isLiteral);
}

interface ShownCase {
  readonly text: string;
  readonly isLiteral: boolean;
}

function shownCase<Case>(value: Case, show?: (value: Case) => string): ShownCase {
  const text = show === undefined ? literal(value) : undefined;
  return { text: text ?? (show ?? stringify)(value), isLiteral: text !== undefined };
}

/** Each law has its own seed, so that adding a law does not change the cases of the others. */
function lawSeed(law: Law, seed: number): number {
  let hash = seed | 0;
  for (const character of lawId(law)) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return hash | 0;
}
