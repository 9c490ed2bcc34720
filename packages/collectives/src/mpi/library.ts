import { isMainThread } from "node:worker_threads";
import { firstLine, refuseToOpen } from "../errors.js";
import type { Family } from "../launch.js";
import { familyOf, interfaceOf, type MpiInterface } from "./interface.js";
import { type Koffi, loadKoffi, type NativeFunction, type NativeLibrary } from "./koffi.js";

/** The names under which libraries of each family are looked for, where the system's loader looks. */
const wellKnown: Readonly<Record<Family, readonly string[]>> = {
  "Open MPI": ["libmpi.so.40", "libmpi.so", "libmpi.40.dylib", "libmpi.dylib"],
  MPICH: ["libmpich.so.12", "libmpi.so.12", "libmpich.so", "libmpi.12.dylib", "libmpich.dylib"],
};

/** What to install, for people. */
const packages: Readonly<Record<Family, string>> = {
  "Open MPI": "Open MPI (Debian: openmpi-bin)",
  MPICH: "MPICH (Debian: mpich)",
};

/** The functions of a library, and its constants. All return an error code, 0 if there is none. */
export interface Mpi {
  readonly constants: MpiInterface;
  /** Of the library, for people. */
  readonly description: string;
  readonly path: string;
  readonly call: Readonly<Record<keyof typeof functions, NativeFunction>>;
}

/** The functions that are called, with their parameters: a pointer, a whole number, or a handle. */
const functions = {
  MPI_Initialized: ["pointer"],
  MPI_Init_thread: ["pointer", "pointer", "int", "pointer"],
  MPI_Finalize: [],
  MPI_Error_string: ["int", "pointer", "pointer"],
  MPI_Comm_set_errhandler: ["handle", "handle"],
  MPI_Comm_rank: ["handle", "pointer"],
  MPI_Comm_size: ["handle", "pointer"],
  MPI_Comm_split: ["handle", "int", "int", "pointer"],
  MPI_Comm_free: ["pointer"],
  MPI_Iallreduce: ["pointer", "pointer", "int", "handle", "handle", "handle", "pointer"],
  MPI_Ibcast: ["pointer", "int", "handle", "int", "handle", "pointer"],
  MPI_Iallgather: ["pointer", "int", "handle", "pointer", "int", "handle", "handle", "pointer"],
  MPI_Ireduce_scatter_block: ["pointer", "pointer", "int", "handle", "handle", "handle", "pointer"],
  MPI_Isend: ["pointer", "int", "handle", "int", "int", "handle", "pointer"],
  MPI_Irecv: ["pointer", "int", "handle", "int", "int", "handle", "pointer"],
  MPI_Test: ["pointer", "pointer", "pointer"],
} as const;

/** Koffi closes libraries that nobody references. */
const loaded = new Map<string, Mpi>();

/**
 * Opens the library at a path, or the one that belongs to the launcher of a family. Throws `UNSUPPORTED` with the reason,
 * and with what to install.
 */
export function openLibrary(choice: { readonly path: string } | { readonly family: Family }): Mpi {
  const isPath = "path" in choice;
  const paths = isPath ? [choice.path] : wellKnown[choice.family];
  let koffi: Koffi;
  try {
    koffi = loadKoffi();
  } catch (error) {
    refuseToOpen(
      "mpi",
      `needs npm koffi, which calls the MPI library: npm install koffi (${firstLine(error)})`,
    );
  }
  const reasons: string[] = [];
  for (const path of paths) {
    try {
      const mpi = loaded.get(path) ?? open(koffi, path);
      if (!isPath && mpi.constants.family !== choice.family)
        throw new Error(`it is ${mpi.description}, and the launcher is that of ${choice.family}`);
      loaded.set(path, mpi);
      return mpi;
    } catch (error) {
      reasons.push(`${path}: ${firstLine(error)}`);
    }
  }
  if (isPath) refuseToOpen("mpi", `is a library that cannot be used: ${reasons[0]}`);
  return refuseToOpen(
    "mpi",
    `is "auto", and this process was started by the launcher of ${choice.family}, whose library cannot be loaded; ` +
      `install ${packages[choice.family]}, or pass the path of the library (${reasons.join("; ")})`,
  );
}

function open(koffi: Koffi, path: string): Mpi {
  // Libraries do not see what a worker sets in its environment.
  if (!isMainThread) throw new Error("MPI is for the main thread of a program, and this is a worker");
  leaveProcessAlone();
  pin(koffi, path);
  // Open MPI's components look for its functions among all of the process.
  const library = koffi.load(path, { global: true });
  let description: string;
  try {
    description = describe(library);
  } catch {
    throw new Error("it has no function MPI_Get_library_version: it is no library of MPI 3 or newer");
  }
  const family = familyOf(description);
  if (family === undefined)
    throw new Error(
      `it is "${description}", whose binary interface is not known here; known are Open MPI, and MPICH with those that ` +
        "share its interface (Intel MPI, MVAPICH, Cray MPICH)",
    );
  const constants = interfaceOf(family, library);
  const types = { pointer: "void *", int: "int", handle: constants.handle } as const;
  const call = Object.fromEntries(
    Object.entries(functions).map(([name, parameters]) => [
      name,
      library.func(
        name,
        "int",
        parameters.map((parameter) => types[parameter]),
      ),
    ]),
  ) as Mpi["call"];
  return { constants, description, path, call };
}

/**
 * Both families change the process by default in ways that do not go together with V8. Settings of the user win.
 *
 * - They take signals such as SIGSEGV, print a trace and end the process. V8 needs that one itself: an access out of the
 *   bounds of a WebAssembly memory is one, and becomes an exception.
 * - They write hooks over the code of mmap and munmap, to know which memory is still registered with a network card.
 *   Threads of V8 are in these functions at any time: one that comes back from the system into the middle of a hook ends
 *   the process with SIGSEGV.
 */
function leaveProcessAlone(): void {
  const settings = {
    OMPI_MCA_opal_signal: "",
    OMPI_MCA_memory: "^patcher",
    // UCX carries the bytes of both.
    UCX_ERROR_SIGNALS: "",
    UCX_MEM_EVENTS: "n",
    // So does libfabric.
    FI_MR_CACHE_MONITOR: "disabled",
  };
  for (const [name, value] of Object.entries(settings)) process.env[name] ??= value;
}

/** Flags of dlopen by system: now, global, and never to be unloaded. */
const flags: Readonly<Partial<Record<NodeJS.Platform, readonly [library: string, flags: number]>>> = {
  linux: ["libc.so.6", 0x1102],
  darwin: ["/usr/lib/libSystem.B.dylib", 0x8a],
};

/**
 * Keeps a library until the process ends. Koffi unloads it earlier, and then whatever has its address crashes: the code
 * of munmap does if a user has turned the hooks of Open MPI on.
 */
function pin(koffi: Koffi, path: string): void {
  const [system, flag] = flags[process.platform] ?? [];
  if (system !== undefined) koffi.load(system).func("dlopen", "void *", ["str", "int"])(path, flag);
}

/** Returns the first line of the library's description of itself. */
function describe(library: NativeLibrary): string {
  // MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH, and less in Open MPI.
  const [text, length] = [Buffer.alloc(8192), new Int32Array(1)];
  library.func("MPI_Get_library_version", "int", ["void *", "void *"])(text, length);
  return text
    .toString("latin1", 0, length[0])
    .replaceAll(/\s+/g, " ")
    .replaceAll("\0", "")
    .trim()
    .slice(0, 60);
}
