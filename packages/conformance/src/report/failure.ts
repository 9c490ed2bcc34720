import { LawFailure, type Replay } from "../law.js";
import { Damage, WrongResults, type WrongValues } from "../workspace.js";

/** How a law was broken. */
export interface FailureReport {
  /** The whole text, of several lines, as tests and the command line print it. */
  readonly message: string;
  /** The smallest case found, as a JavaScript literal or a list of calls. Null: the law has no cases. */
  readonly case: string | null;
  /** The error, in a sentence. */
  readonly reason: string;
  /** A line for a test that tries this very case. Null if the case cannot be written down. */
  readonly paste: string | null;
  readonly replay: Replay;
  /** The wrong results. Null if the failure is of another kind. */
  readonly values: WrongValues | null;
  /** The changed bytes that no operation may touch, in words. Null if the failure is of another kind. */
  readonly guard: string | null;
}

/** Returns the error of a failed law as data. */
export function describeFailure(error: unknown, law: string, seed: number): FailureReport {
  const failure = error instanceof LawFailure ? error : new LawFailure({ law, seed }, error);
  const { message, reason, shown, isLiteral, replay } = failure;
  return {
    message,
    case: shown ?? null,
    reason,
    paste:
      shown === undefined || !isLiteral
        ? null
        : `await checkCase({ name: "mine", create }, ${JSON.stringify(replay.law)}, ${shown});`,
    replay,
    values: within(failure, WrongResults)?.values ?? null,
    guard: within(failure, Damage)?.message ?? null,
  };
}

/** The error of a class in a chain of causes. */
function within<Kind extends Error>(
  error: unknown,
  kind: abstract new (...args: never) => Kind,
): Kind | undefined {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof kind) return at;
  return undefined;
}
