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
    const results = expected.indices.map((index) => result[index]!);
    const values = expected.values.map(({ value, tolerance }) => ({
      value,
      tolerance: peerSlack * tolerance,
    }));
    const worstError = peerSlack * checkResults(test, results, { indices: expected.indices, values });
    const sample = timer({ call: () => opened.call() }, async () => opened.finish?.());
    return { how: opened.how, worstError, sample, close: () => opened.close() };
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
