import { CommunicationError, refuseToOpen } from "../errors.js";
import type { Launch } from "../launch.js";
import type { Mpi } from "./library.js";
import { MpiLink } from "./mpi-link.js";
import { isAlive, type Process, thisProcess } from "./neighbours.js";
import { Requests } from "./requests.js";

/** MPI starts once in a process, and ends once. */
let state: "new" | "open" | "ended" = "new";

/** MPI_THREAD_FUNNELED: only the thread that has started MPI calls it. */
const funneled = 1;

export interface OpenedLink {
  readonly link: MpiLink;
  readonly requests: Requests;
  /** The place of this rank among those of its machine. */
  readonly localRank: number;
  /** Ends MPI in this process. */
  close(): void;
}

/** Starts MPI, and meets the other ranks. */
export async function openMpiLink(
  mpi: Mpi,
  launch: Launch | undefined,
  timeoutSeconds: number,
): Promise<OpenedLink> {
  const initialized = new Int32Array(1);
  mpi.call.MPI_Initialized(initialized);
  if (state === "ended")
    refuseToOpen("mpi", "was ended in this process by dispose(), and cannot start again");
  if (initialized[0] !== 0)
    refuseToOpen("mpi", "is open in this process already; pass the communicator on, or split it", "BUSY");
  const level = new Int32Array(1);
  const code = mpi.call.MPI_Init_thread(null, null, funneled, level);
  if (code !== 0)
    throw new CommunicationError("MPI_ERROR", "openCommunicator", `MPI does not start: code ${code}`);
  state = "open";
  const requests = new Requests(mpi, timeoutSeconds);
  const link = new MpiLink(mpi, requests, mpi.constants.world);
  const close = (): void => {
    state = "ended";
    if (requests.isBroken) return;
    requests.end();
    link.release();
  };
  if (launch?.size !== undefined && launch.size !== link.size) {
    close();
    refuseToOpen(
      "mpi",
      `is ${mpi.description}, which knows of ${link.size} process, while a launcher of ${launch.family} has started ` +
        `${launch.size}; allowed: library and launcher of the same MPI`,
    );
  }
  const processes = await meet(link);
  const { host } = processes[link.rank]!;
  const neighbours = processes
    .map((process, rank) => ({ ...process, rank }))
    .filter((process) => process.host === host && process.rank !== link.rank && isAlive(process));
  requests.watch(neighbours);
  const localRank = processes.slice(0, link.rank).filter((process) => process.host === host).length;
  return { link, requests, localRank, close };
}

/** Long enough for a host name, which has at most 255 letters. */
const recordBytes = 1024;

/** Returns the process of each rank. */
async function meet(link: MpiLink): Promise<Process[]> {
  const mine = Buffer.alloc(recordBytes, " ");
  mine.write(JSON.stringify(thisProcess()));
  const all = Buffer.alloc(recordBytes * link.size);
  // Plain arrays: the type of an element is told by the class.
  const bytes = (buffer: Buffer): Uint8Array =>
    new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
  await link.allGather(bytes(mine), bytes(all), { operation: "openCommunicator", isPatient: true });
  return Array.from(
    { length: link.size },
    (_, rank): Process => JSON.parse(all.toString("utf8", recordBytes * rank, recordBytes * (rank + 1))),
  );
}
