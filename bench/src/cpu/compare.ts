import type { ComputeBackend } from "@backplane/core";
import type { Case, Inputs } from "../cases/case.js";
import {
  type CheckedContender,
  type Contender,
  checkResults,
  Expectations,
  openContender,
  type Pace,
  timer,
} from "../contender.js";
import { ratios, summarise } from "../statistics.js";
import type { Ceiling } from "./ceiling.js";
import type { Peer } from "./peer.js";
import type { CpuMissing, CpuRow, PeerTimes, Ratio, Times } from "./results.js";
import type { PeerRow } from "./rows.js";

export interface Contenders {
  readonly backend: ComputeBackend;
  readonly threads: number;
  readonly peers: readonly Peer[];
  /** Ours on one thread, if there are more. */
  readonly single?: ComputeBackend;
  readonly ceiling?: Ceiling;
}

export interface Turns {
  readonly pace: Pace;
  readonly rounds: number;
}

export interface RowResult {
  readonly row?: CpuRow;
  readonly missing: readonly CpuMissing[];
}

interface Entry<Opened extends Contender = Contender> {
  readonly contender: Opened;
  readonly samples: number[];
}

interface CheckedPeer extends CheckedContender {
  readonly how: string;
}

/**
 * Checks one case on ours and on every peer, then times all of them in turns. A peer with a wrong result or
 * none is left out of the row and listed with the reason.
 */
export async function compareRow(row: PeerRow, contenders: Contenders, turns: Turns): Promise<RowResult> {
  const { test } = row;
  const { backend, threads, peers, single, ceiling } = contenders;
  const missing: CpuMissing[] = [];
  const note = (name: CpuMissing["name"], error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    missing.push({ case: test.name, threads, name, reason });
  };
  const expected = new Expectations(test);
  const opened: Contender[] = [];
  const entry = <Opened extends Contender>(contender: Opened): Entry<Opened> => {
    opened.push(contender);
    return { contender, samples: [] };
  };
  try {
    const ours = entry(await openContender(backend, waitedFor(test), expected));
    const others = new Map<Peer, Entry<CheckedPeer>>();
    for (const peer of peers)
      try {
        others.set(peer, entry(await openPeerCase(peer, test, expected)));
      } catch (error) {
        note(peer.name, error);
      }
    const limit = row.scales && ceiling !== undefined ? entry(ceiling.contender(test.cost.flops)) : undefined;
    const alone =
      row.scales && single !== undefined
        ? entry(await openContender(single, waitedFor(test), expected))
        : undefined;
    for (let round = 0; round < turns.rounds; round++) {
      for (const { contender, samples } of [ours, limit, alone].filter((one) => one !== undefined))
        samples.push(await contender.sample(turns.pace));
      for (const [peer, { contender, samples }] of others)
        try {
          samples.push(await contender.sample(turns.pace));
        } catch (error) {
          note(peer.name, error);
          others.delete(peer);
        }
    }
    const peerTimes = [...others].map(
      ([{ name }, { contender, samples }]): PeerTimes => ({
        name,
        how: contender.how,
        worstError: contender.worstError,
        ...timesOf(samples),
        ...ratioOf(ours.samples, samples),
      }),
    );
    return {
      row: {
        case: test.name,
        operation: test.operation,
        threads,
        ...test.cost,
        ours: { ...timesOf(ours.samples), worstError: ours.contender.worstError },
        peers: peerTimes,
        goal: row.goal,
        ...(limit === undefined
          ? {}
          : {
              ceiling: {
                ...ratioOf(ours.samples, limit.samples),
                flopsPerSecond: test.cost.flops / timesOf(limit.samples).median,
              },
            }),
        ...(alone === undefined ? {} : { scaling: ratioOf(ours.samples, alone.samples) }),
      },
      missing,
    };
  } catch (error) {
    note("backplane", error);
    return { missing };
  } finally {
    for (const contender of opened) await contender.close();
  }
}

/** The case with a wait after each call, as every peer has one. */
function waitedFor(test: Case): Case {
  return {
    ...test,
    prepare(backend, handles, inputs) {
      const prepared = test.prepare(backend, handles, inputs);
      const call = async () => {
        await prepared.call();
        await backend.synchronize();
      };
      return { ...prepared, call };
    },
  };
}

/**
 * How much further off than ours a peer may be: each library has its own accuracy, and being less accurate
 * is no mistake. A product that is computed wrong is off by far more.
 */
const peerSlack = 16;

/**
 * How far the share of random numbers up to x may be from that of their distribution, times the square root of how many there are.
 * Kolmogorov's limit: right numbers are further away with a probability of 2 e^(-2 2.5^2), 1 in 130,000.
 */
const distributionLimit = 2.5;

/** Returns the largest such distance as a share of the limit. Throws if it is more, or numbers repeat all the time. */
export function checkDistribution(result: ArrayLike<number>, distribution: (x: number) => number): number {
  const sorted = Float64Array.from(result).sort();
  const count = sorted.length;
  // The function only grows: a share of the numbers decides.
  const step = Math.max(Math.floor(count / 2 ** 14), 1);
  let worst = 0;
  let distinct = 0;
  for (let i = 0; i < count; i++) if (i === 0 || sorted[i] !== sorted[i - 1]) distinct++;
  if (distinct < Math.min(count, 2 ** 20) / 2) throw new Error(`${distinct} of ${count} numbers differ`);
  for (let i = 0; i < count; i += step)
    worst = Math.max(worst, Math.abs(distribution(sorted[i]!) - (i + 0.5) / count));
  const share = (worst * Math.sqrt(count)) / distributionLimit;
  if (!(share <= 1))
    throw new Error(`the numbers are ${worst} from their distribution, ${share} of the limit`);
  return share;
}

/** Throws if the peer cannot run the case, or gives a wrong result. */
export async function openPeerCase(
  peer: Peer<string>,
  test: Case,
  expected: Expectations,
): Promise<CheckedPeer> {
  const inputs: Inputs = expected.inputs;
  const opened = await peer.open(test, inputs);
  try {
    const result = await opened.read();
    if (result.length !== test.output.elements)
      throw new Error(`the result has ${result.length} elements, expected ${test.output.elements}`);
    const worstError =
      test.distribution === undefined ? checkPeer() : checkDistribution(result, test.distribution);
    const sample = timer({ call: () => opened.call() }, async () => opened.finish?.());
    return { how: opened.how, worstError, sample, close: () => opened.close() };

    function checkPeer(): number {
      const results = expected.indices.map((index) => result[index]!);
      const values = expected.values.map(({ value, tolerance }) => ({
        value,
        tolerance: peerSlack * tolerance,
      }));
      return peerSlack * checkResults(test, results, { indices: expected.indices, values });
    }
  } catch (error) {
    await opened.close();
    throw error;
  }
}

function timesOf(samples: readonly number[]): Times {
  return { median: summarise(samples).median, best: Math.min(...samples), samples };
}

function ratioOf(ours: readonly number[], others: readonly number[]): Ratio {
  const { median: ratio, spread } = summarise(ratios(ours, others));
  return { ratio, bestRatio: Math.min(...others) / Math.min(...ours), spread };
}
