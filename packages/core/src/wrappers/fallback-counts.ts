/** The calls of one operation, or of `copyDtoD` and the like if they moved contents. */
export interface FallbackOperation {
  readonly operation: string;
  /** Calls that ran on the first backend, and on the second. Calls other than operations are not counted. */
  readonly first: number;
  readonly second: number;
  /** How many allocations were moved for these calls, and their bytes. */
  readonly moves: number;
  readonly movedBytes: number;
}

/** What a `FallbackBackend` has done so far. */
export interface FallbackReport {
  readonly operations: readonly FallbackOperation[];
  /** Bytes moved from the second backend to the first, and from the first to the second. */
  readonly bytesToFirst: number;
  readonly bytesToSecond: number;
}

/** A call that ran on the second backend. */
export interface FallbackEvent {
  readonly operation: string;
  /** How many allocations were moved there for the call, and their bytes. */
  readonly moves: number;
  readonly movedBytes: number;
}

type Counts = { -readonly [Name in keyof FallbackOperation]: FallbackOperation[Name] };

/** The counters behind a report. */
export class FallbackCounts {
  readonly #operations = new Map<string, Counts>();
  readonly #bytesTo: [number, number] = [0, 0];

  carriedOut(operation: string, side: 0 | 1): void {
    const counts = this.#of(operation);
    if (side === 0) counts.first++;
    else counts.second++;
  }

  moved(operation: string, bytes: number, to: 0 | 1): void {
    const counts = this.#of(operation);
    counts.moves++;
    counts.movedBytes += bytes;
    this.#bytesTo[to] += bytes;
  }

  report(): FallbackReport {
    const [bytesToFirst, bytesToSecond] = this.#bytesTo;
    const operations = Array.from(this.#operations.values(), (counts) => ({ ...counts }));
    return { operations, bytesToFirst, bytesToSecond };
  }

  #of(operation: string): Counts {
    const known = this.#operations.get(operation);
    if (known !== undefined) return known;
    const counts = { operation, first: 0, second: 0, moves: 0, movedBytes: 0 };
    this.#operations.set(operation, counts);
    return counts;
  }
}
