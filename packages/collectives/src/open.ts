import { checkNames } from "@backplane/core";
import { Communicator } from "./communicator.js";
import { refuseToOpen } from "./errors.js";
import { launchOf } from "./launch.js";
import { SoloLink } from "./link.js";
import { openLibrary } from "./mpi/library.js";
import { openMpiLink } from "./mpi/open-mpi-link.js";

export interface CommunicatorOptions {
  /**
   * "auto": MPI if a launcher such as `mpirun` started this process, with the library that belongs to the launcher.
   * false: no MPI, this process alone. A path: the MPI library there. Default: "auto".
   */
  readonly mpi?: "auto" | false | (string & {});
  /** How long a call waits for other ranks before it gives up, in seconds. Default: 600. */
  readonly timeoutSeconds?: number;
}

/**
 * Opens the communicator of all processes that a launcher started together; a communicator of one if there was none:
 *
 *   mpirun -n 4 node train.js
 *
 * Throws `UNSUPPORTED` if MPI is needed and cannot be used, with what to install. Starting MPI blocks the event loop until
 * all processes have come; nothing later does. It can be done once in the life of a process.
 */
export async function openCommunicator(options: CommunicatorOptions = {}): Promise<Communicator> {
  checkNames("openCommunicator", options, ["mpi", "timeoutSeconds"]);
  const { mpi = "auto", timeoutSeconds = 600 } = options;
  if (mpi !== false && (typeof mpi !== "string" || mpi === ""))
    refuseToOpen(
      "mpi",
      `is ${String(mpi)}; allowed: "auto", false, or the path of a library`,
      "INVALID_ARGUMENT",
    );
  if (typeof timeoutSeconds !== "number" || !(timeoutSeconds > 0))
    refuseToOpen(
      "timeoutSeconds",
      `is ${String(timeoutSeconds)}; allowed: numbers above 0`,
      "INVALID_ARGUMENT",
    );
  const launch = launchOf(process.env);
  if (mpi === false || (mpi === "auto" && launch === undefined))
    return new Communicator(new SoloLink(), {
      localRank: 0,
      engine: "none",
      close: () => {},
      isBroken: () => false,
    });
  const library = openLibrary(mpi === "auto" ? { family: launch!.family } : { path: mpi });
  const { link, requests, localRank, close } = await openMpiLink(library, launch, timeoutSeconds);
  return new Communicator(link, {
    localRank,
    engine: library.description,
    close,
    isBroken: () => requests.isBroken,
  });
}
