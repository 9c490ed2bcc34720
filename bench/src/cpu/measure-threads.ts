// One process measures all rows on one number of threads: libraries choose theirs once, when they load.
import { type CpuOptions, createCpuBackend } from "@backplane/backend-cpu";
import type { TransformedConvolutions } from "@backplane/core";
import { bestInstruction, Ceiling } from "./ceiling.js";
import { type Contenders, compareRow, type RowResult } from "./compare.js";
import { openPeer, type Peer, type PeerName } from "./peer.js";
import type { CpuMissing, PeerAbout } from "./results.js";
import { peerRows } from "./rows.js";

/** The request to this process. */
export interface ThreadsRequest {
  readonly threads: number;
  readonly rows: readonly string[];
  readonly peers: readonly PeerName[];
  readonly blas: string | undefined;
  readonly transforms: TransformedConvolutions;
  readonly rounds: number;
  readonly milliseconds: number;
}

/** The messages of this process, in order. */
export type ThreadsMessage =
  | { readonly about: PeerAbout }
  | { readonly missing: CpuMissing }
  | { readonly blas: string }
  | { readonly result: RowResult };

process.once("message", (request: ThreadsRequest) => {
  measure(request).then(
    () => process.exit(0),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});

async function measure(request: ThreadsRequest): Promise<void> {
  const { threads, rows, peers, blas = false, transforms, rounds, milliseconds } = request;
  const options: CpuOptions = { blas, transformedConvolutions: transforms };
  const opened: Peer[] = [];
  for (const name of peers)
    try {
      const peer = await openPeer(name, threads);
      opened.push(peer);
      const { version, note } = peer;
      await tell({ about: { name, asked: threads, threads: peer.threads, version, note } });
    } catch (error) {
      // If modules are not found, Node.js adds a path of this machine.
      const reason = `does not start: ${(error as Error).message.replace(/ imported from .*/s, "")}`;
      await tell({ missing: { case: "all", threads, name, reason } });
    }
  const contenders: Contenders = {
    backend: createCpuBackend({ ...options, threads: workersOf(threads) }),
    threads,
    peers: opened,
    ceiling: new Ceiling(threads, bestInstruction()),
    ...(threads > 1 ? { single: createCpuBackend({ ...options, threads: workersOf(1) }) } : {}),
  };
  await contenders.backend.init();
  await contenders.single?.init();
  if (blas !== false) {
    const { details } = contenders.backend.capabilities.device;
    if (details.blas === undefined) throw new Error(details.blasUnavailable);
    // Its name only; the rest is a path of this machine.
    await tell({ blas: details.blas.split(", ")[0]! });
  }
  const pace = { sample: milliseconds / 1000, warmUp: milliseconds / 4000 };
  for (const row of peerRows)
    if (rows.includes(row.test.name))
      await tell({ result: await compareRow(row, contenders, { pace, rounds }) });
}

/**
 * Returns the number of our workers. One thread is the caller's, on which other libraries run as well: if
 * cores are not equally fast, all are on the same one.
 */
function workersOf(threads: number): number {
  return threads === 1 ? 0 : threads;
}

/** Resolves once the message has left, so that the process may end. */
function tell(message: ThreadsMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    process.send!(message, undefined, undefined, (error) => (error === null ? resolve() : reject(error)));
  });
}
