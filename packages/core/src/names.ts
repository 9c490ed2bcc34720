import { BackendError } from "./errors.js";
import { describe } from "./handles.js";

/**
 * Throws `INVALID_ARGUMENT` where `given` is no object, or has a name that is not in `known`, whatever
 * stands there: what nobody reads is misspelt, or meant for somebody else. Own enumerable properties
 * count, inherited ones and symbols do not. `within` is the option whose value `given` is.
 *
 * It costs a tenth of a small call. Operations therefore count, each in a loop of its own, which engines make
 * fast for the few forms that its arguments have: where an object has as many names as there are arguments
 * with a value, all are known. Otherwise a name is unknown or has no value, and is looked for here.
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
  for (const name of Object.keys(given)) {
    if ((known as readonly string[]).includes(name)) continue;
    const nearest = nearestTo(name, known);
    refuse(
      within === undefined ? name : `${within}.${name}`,
      `is unknown${nearest === undefined ? "" : ` (is ${nearest} meant?)`}; allowed: ${known.join(", ")}`,
    );
  }
}

/** The name that takes the fewest changes of letters, if no more than two for every five letters. */
function nearestTo(name: string, known: readonly string[]): string | undefined {
  const ranked = known.map((other) => ({
    other,
    changes: editDistance(name.toLowerCase(), other.toLowerCase()),
  }));
  ranked.sort((a, b) => a.changes - b.changes);
  return ranked.find(({ changes }) => changes <= 0.4 * name.length)?.other;
}

/** How many letters are to be added, dropped or replaced to make one text of the other. */
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
