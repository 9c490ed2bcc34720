import { BackendError } from "./errors.js";
import { describe } from "./handles.js";

/**
 * Throws `INVALID_ARGUMENT` if `given` is not an object, or has a name that is not in `known`, whatever its
 * value: such a name is misspelt or meant for another call. Own enumerable properties count; inherited ones
 * and symbols do not. `within` is the option that has `given` as its value.
 *
 * The check costs a tenth of a small call. Operations therefore call it only if counting their names leaves a
 * doubt; see `startCount`.
 */
export function checkNames<Given extends object>(
  operation: string,
  given: Given,
  known: readonly (keyof Given & string)[],
  within?: string,
): void {
  const refuse = (argument: string, complaint: string): never => {
    throw new BackendError("INVALID_ARGUMENT", `${operation}: ${argument} ${complaint}`, {
      operation,
      argument,
    });
  };
  const object: unknown = given;
  if (typeof object !== "object" || object === null || Array.isArray(object))
    refuse(within ?? "options", `is ${describe(object)}; allowed: an object`);
  // No list of the names: it would be made for every call.
  for (const name in given) {
    if ((known as readonly string[]).includes(name) || !Object.hasOwn(given, name)) continue;
    const nearest = nearestTo(name, known);
    refuse(
      within === undefined ? name : `${within}.${name}`,
      `is unknown${nearest === undefined ? "" : ` (is ${nearest} meant?)`}; allowed: ${known.join(", ")}`,
    );
  }
}

/** Returns the name with the fewest changed letters, if they are at most two for every five letters. */
export function nearestTo(name: string, known: readonly string[]): string | undefined {
  const ranked = known.map((other) => ({
    other,
    changes: editDistance(name.toLowerCase(), other.toLowerCase()),
  }));
  ranked.sort((a, b) => a.changes - b.changes);
  return ranked.find(({ changes }) => changes <= 0.4 * name.length)?.other;
}

/** The number of letters to add, drop or replace to turn one text into the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 0; i < from.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < to.length; j++)
      next.push(Math.min(next[j]! + 1, row[j + 1]! + 1, row[j]! + (from[i] === to[j] ? 0 : 1)));
    row = next;
  }
  return row[to.length]!;
}
