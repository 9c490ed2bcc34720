/** One message of a step. */
export interface Transfer {
  readonly from: number;
  readonly to: number;
  /** The part of the array that is sent: from `start` to `end`, as fractions of its length. */
  readonly start: number;
  readonly end: number;
  /** Whether it is added to what the receiver has, or takes its place. */
  readonly adds: boolean;
}

/** Messages that are sent at the same time. */
export type Step = readonly Transfer[];

/**
 * The ring: ranks pass parts of 1 / p on to the next one, first to sum them up and then to spread the sums
 * (P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
 */
export function* ring(ranks: number): Generator<Step> {
  for (const adds of [true, false])
    for (let step = 0; step < ranks - 1; step++)
      yield Array.from({ length: ranks }, (_, from) => {
        const part = (from - step + (adds ? 0 : 1) + 2 * ranks) % ranks;
        return { from, to: (from + 1) % ranks, start: part / ranks, end: (part + 1) / ranks, adds };
      });
}

/** The binomial tree: sums go up to rank 0 as whole arrays, and come down again. */
export function* tree(ranks: number): Generator<Step> {
  const distances: number[] = [];
  for (let distance = 1; distance < ranks; distance *= 2) distances.push(distance);
  const pairs = (distance: number): (readonly [low: number, high: number])[] => {
    const list: (readonly [number, number])[] = [];
    for (let low = 0; low + distance < ranks; low += 2 * distance) list.push([low, low + distance]);
    return list;
  };
  for (const distance of distances)
    yield pairs(distance).map(([to, from]) => ({ from, to, start: 0, end: 1, adds: true }));
  for (const distance of distances.reverse())
    yield pairs(distance).map(([from, to]) => ({ from, to, start: 0, end: 1, adds: false }));
}

export const algorithms = { ring, tree } as const;

/** Latency in seconds, bandwidth in bytes per second. */
export interface Connection {
  readonly latency: number;
  readonly bandwidth: number;
}

export interface Cluster {
  readonly ranksPerHost: number;
  /** Between ranks of a host; each pair has its own. */
  readonly local: Connection;
  /** Between hosts; the ranks of a host share one each way. */
  readonly remote: Connection;
  /** From the device to the host and back, in bytes per second; each rank has its own. */
  readonly down: number;
  readonly up: number;
}

/** Seconds until the last rank has the sum of an array on its host. */
export function simulate(steps: Iterable<Step>, ranks: number, bytes: number, cluster: Cluster): number {
  const { ranksPerHost, local, remote } = cluster;
  const hostOf = (rank: number): number => Math.floor(rank / ranksPerHost);
  /** When each rank has what it has to wait for. */
  const ready = new Float64Array(ranks);
  /** When the wires out of and into each host are free. */
  const out = new Float64Array(hostOf(ranks - 1) + 1);
  const into = new Float64Array(out.length);
  for (const step of steps) {
    const before = ready.slice();
    for (const { from, to, start, end } of step) {
      const size = (end - start) * bytes;
      const [source, destination] = [hostOf(from), hostOf(to)];
      let begin = Math.max(before[from]!, before[to]!);
      let arrival = begin + local.latency + size / local.bandwidth;
      if (source !== destination) {
        begin = Math.max(begin, out[source]!, into[destination]!);
        const sent = begin + size / remote.bandwidth;
        out[source] = sent;
        into[destination] = sent;
        arrival = sent + remote.latency;
      }
      // A rank sends and receives at once, and goes on when both are done.
      ready[from] = Math.max(ready[from]!, arrival);
      ready[to] = Math.max(ready[to]!, arrival);
    }
  }
  return Math.max(0, ...ready);
}

/** Seconds to bring an array from each device to its host and back. */
export function copySeconds(bytes: number, { down, up }: Cluster): number {
  return bytes / down + bytes / up;
}
