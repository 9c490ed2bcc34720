import { type Arbitrary, asyncProperty, check } from "fast-check";
import { type ForAllOptions, type Law, LawFailure, lawId, type Replay } from "./law.js";

/** How hard to search. */
export interface SearchOptions {
  readonly seed: number;
  /** Random cases per law. */
  readonly runs: number;
  /** Whether to look for a smaller case after a failure. */
  readonly shrink: boolean;
  readonly replay: Replay | undefined;
}

/** Shrinking stops after this long, and the smallest case found so far is reported. */
const shrinkMilliseconds = 4000;

/** A law that takes longer than this is reported as broken rather than cut short in silence. */
const lawMilliseconds = 240_000;

/** Searches for a case that breaks the property; throws a `LawFailure` with the smallest one found. */
export async function forAll<Case>(
  law: Law,
  search: SearchOptions,
  arbitrary: Arbitrary<Case>,
  property: (value: Case) => Promise<void>,
  options: ForAllOptions<Case> = {},
): Promise<void> {
  let shrinkUntil = Number.POSITIVE_INFINITY;
  const { replay } = search;
  const details = await check(
    asyncProperty(arbitrary, async (value) => {
      // Saying yes to every further candidate is how shrinking is ended in time.
      if (performance.now() > shrinkUntil) return;
      try {
        await property(value);
      } catch (error) {
        if (shrinkUntil === Number.POSITIVE_INFINITY) shrinkUntil = performance.now() + shrinkMilliseconds;
        throw error;
      }
    }),
    {
      seed: lawSeed(law, search.seed),
      numRuns: (options.examples?.length ?? 0) + Math.max(1, Math.ceil(search.runs * (options.runs ?? 1))),
      examples: (options.examples ?? []).map((value): [Case] => [value]),
      endOnFailure: !search.shrink || replay?.path !== undefined,
      interruptAfterTimeLimit: lawMilliseconds,
      markInterruptAsFailure: true,
      ...(replay?.path === undefined ? {} : { path: replay.path }),
    },
  );
  if (!details.failed) return;
  const found = details.counterexample;
  if (found === null)
    throw failure(
      law,
      search,
      undefined,
      details.errorInstance,
      `no case failed in ${details.numRuns}; the law ran out of time`,
    );
  const path = details.counterexamplePath ?? undefined;
  const show = options.show ?? ((value: Case) => JSON.stringify(value));
  throw failure(law, search, path, details.errorInstance, `case: ${show(found[0])}`);
}

/** Tries every case in turn; throws a `LawFailure` for the first that breaks the property. */
export async function forEach<Case>(
  law: Law,
  search: SearchOptions,
  cases: readonly Case[],
  property: (value: Case) => Promise<void>,
): Promise<void> {
  const only = search.replay?.path;
  for (const [index, value] of cases.entries()) {
    if (only !== undefined && only !== String(index)) continue;
    try {
      await property(value);
    } catch (error) {
      throw failure(law, search, String(index), error, `case: ${JSON.stringify(value)}`);
    }
  }
}

function failure(
  law: Law,
  search: SearchOptions,
  path: string | undefined,
  error: unknown,
  what: string,
): LawFailure {
  const replay: Replay = { law: lawId(law), seed: search.seed, ...(path === undefined ? {} : { path }) };
  const reason = error instanceof Error ? error.message : error === null ? "" : String(error);
  const lines = [lawId(law), what, reason, `replay: ${JSON.stringify(replay)}`];
  return new LawFailure(lines.filter((line) => line !== "").join("\n"), replay, error);
}

/** Each law searches elsewhere, and adding a law does not move the others. */
function lawSeed(law: Law, seed: number): number {
  let hash = seed | 0;
  for (const character of lawId(law)) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return hash | 0;
}
