import { literal } from "../literal.js";
import type { Finding } from "./finding.js";
import { type CallReplay, lineFor } from "./replay.js";

/** A call after which a result lay outside of its bound. */
export interface Divergence extends Finding {
  /** How many calls that write were made before it: operations, copies, fills, uploads and allocations. */
  readonly call: number;
  /** The operation, or `copyDtoD`, `fill`, `copyHtoD` or `alloc`. */
  readonly operation: string;
  /** The arguments of the call. Operands are those of the first backend. */
  readonly args: Readonly<Record<string, unknown>>;
  /** The call and its operands as plain data, for `checkCall`. */
  readonly replay: CallReplay;
  /** All of this as text, with a line for a test if the operands are small. */
  readonly message: string;
}

/** Calls of one operation that could not be compared, or only with the formula, and why. */
export interface SkippedCalls {
  readonly operation: string;
  readonly reason: string;
  readonly calls: number;
}

/** What a `CompareBackend` has done so far. */
export interface CompareReport {
  /** Calls that write: operations, copies, fills, uploads and allocations. */
  readonly calls: number;
  /** Those that were compared. Of the others some were left out by `every`, and some are in `skipped`, which
   * also has those that the second backend failed at, and that were compared with the formula alone. */
  readonly compared: number;
  readonly skipped: readonly SkippedCalls[];
  /** Calls with a result outside of its bound. */
  readonly divergences: number;
  /** The first of them. */
  readonly first: Divergence | undefined;
}

/** The names of the two backends. */
export type Names = readonly [first: string, second: string];

/** Returns the text that describes a divergence. */
export function messageOf(divergence: Omit<Divergence, "message">, names: Names): string {
  const { call, operation, args, argument, element, dtype, first, second, exact, allowed } = divergence;
  const { wrong, wrongElements, replay } = divergence;
  const whose = wrong === "both" ? names.join(" and ") : names[wrong === "first" ? 0 : 1];
  const others = wrongElements > 1 ? `, the worst of ${wrongElements}` : "";
  const what =
    dtype === undefined ? `byte ${element} next to ${argument}` : `element ${element} of ${argument}`;
  const line = lineFor(replay);
  return [
    `CompareBackend: ${operation}, call ${call}: ${what} is wrong on ${whose}${others}`,
    `  ${names[0]}: ${first}`,
    `  ${names[1]}: ${second ?? "did not make the call"}`,
    dtype === undefined
      ? `  expected: ${exact}, as before the call, since it is no part of the result`
      : `  expected: ${exact} within ${allowed}, so that the two may differ by ${2 * allowed}`,
    `  arguments: ${literal(args) ?? "not plain data"}`,
    line === undefined ? "  to see it again: checkCall(create, divergence.replay)" : `  in a test: ${line}`,
  ].join("\n");
}

/** The counters behind a report. */
export class CompareCounts {
  calls = 0;
  compared = 0;
  divergences = 0;
  first: Divergence | undefined;
  readonly #skipped = new Map<string, SkippedCalls>();

  skip(operation: string, reason: string): void {
    const key = `${operation} ${reason}`;
    const calls = (this.#skipped.get(key)?.calls ?? 0) + 1;
    this.#skipped.set(key, { operation, reason, calls });
  }

  report(): CompareReport {
    const { calls, compared, divergences, first } = this;
    return { calls, compared, skipped: [...this.#skipped.values()], divergences, first };
  }
}
