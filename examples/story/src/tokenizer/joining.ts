/** What two neighbours become. */
export interface Joint<Part> {
  readonly joined: Part;
  /** The lowest comes first. */
  readonly rank: number;
}

/** Two neighbours that can be joined, the first of which stands at a place. */
interface Pair<Part> extends Joint<Part> {
  readonly place: number;
}

/**
 * Joins neighbours two by two until `jointOf` finds none to join: always the pair with the lowest rank, and among equals the
 * leftmost one. Takes n log n steps for n parts.
 */
export function joinNeighbours<Part>(
  given: readonly Part[],
  jointOf: (first: Part, second: Part) => Joint<Part> | undefined,
): Part[] {
  const parts = [...given];
  const isThere = given.map(() => true);
  /** The places of the neighbours. */
  const before = given.map((_, place) => place - 1);
  const after = given.map((_, place) => place + 1);
  /** The pair that begins at each place. Others in the queue are out of date. */
  const current: (Pair<Part> | undefined)[] = given.map(() => undefined);
  const queue = new PairQueue<Part>();
  const look = (place: number): void => {
    const second = after[place]!;
    const joint = second < parts.length ? jointOf(parts[place]!, parts[second]!) : undefined;
    current[place] = joint && { ...joint, place };
    if (current[place] !== undefined) queue.add(current[place]);
  };
  for (const place of given.keys()) look(place);
  for (let pair = queue.take(); pair !== undefined; pair = queue.take()) {
    const { place, joined } = pair;
    if (current[place] !== pair) continue;
    const second = after[place]!;
    parts[place] = joined;
    isThere[second] = false;
    current[second] = undefined;
    after[place] = after[second]!;
    before[after[second]!] = place;
    if (before[place]! >= 0) look(before[place]!);
    look(place);
  }
  return parts.filter((_, place) => isThere[place]);
}

/** Pairs by rank and then by place: a binary heap, in which none comes before the one at half its index. */
class PairQueue<Part> {
  /** From index 1 on. */
  readonly #pairs: Pair<Part>[] = [];
  #last = 0;

  add(pair: Pair<Part>): void {
    let at = ++this.#last;
    for (; at > 1 && comesBefore(pair, this.#pairs[at >> 1]!); at >>= 1)
      this.#pairs[at] = this.#pairs[at >> 1]!;
    this.#pairs[at] = pair;
  }

  /** Returns the first pair, and removes it. */
  take(): Pair<Part> | undefined {
    if (this.#last === 0) return undefined;
    const pairs = this.#pairs;
    const first = pairs[1]!;
    const moved = pairs[this.#last--]!;
    let at = 1;
    for (let next = 2; next <= this.#last; at = next, next = 2 * at) {
      if (next < this.#last && comesBefore(pairs[next + 1]!, pairs[next]!)) next++;
      if (!comesBefore(pairs[next]!, moved)) break;
      pairs[at] = pairs[next]!;
    }
    pairs[at] = moved;
    return first;
  }
}

function comesBefore(a: Pair<unknown>, b: Pair<unknown>): boolean {
  return a.rank < b.rank || (a.rank === b.rank && a.place < b.place);
}
