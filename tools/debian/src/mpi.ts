import { existsSync } from "node:fs";
import { join } from "node:path";
import { cachedFolder, cachePath } from "./cache.js";
import { DebianUnavailable, LIBRARIES, unpackDebianPackage } from "./packages.js";

/** The implementations of MPI that Debian has. */
export type MpiName = "openmpi" | "mpich";

interface Implementation {
  readonly package: string;
  readonly library: string;
  readonly launcher: string;
  readonly options: readonly string[];
  /** Variables for an installation in a folder that it was not built for. */
  environment(folder: string): Readonly<Record<string, string>>;
}

const implementations: Readonly<Record<MpiName, Implementation>> = {
  openmpi: {
    package: "openmpi-bin",
    library: "libmpi.so.40",
    launcher: "orterun",
    // More ranks than cores
    options: ["--oversubscribe"],
    environment: (folder) => ({
      OPAL_PREFIX: join(folder, "usr"),
      OMPI_ALLOW_RUN_AS_ROOT: "1",
      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1",
      // Components for networks that this machine has no library for, and compression: it works without, and need not say so.
      OMPI_MCA_mca_base_component_show_load_errors: "0",
      PMIX_MCA_pcompress_base_silence_warning: "1",
    }),
  },
  mpich: {
    package: "mpich",
    library: "libmpich.so.12",
    launcher: "mpiexec.hydra",
    options: [],
    environment: () => ({}),
  },
};

export const mpiNames: readonly MpiName[] = ["openmpi", "mpich"];

/** How programs are started: `command` with `options`, then `-n`, the number of ranks, and the program. */
export interface LaunchCommand {
  readonly command: string;
  readonly options: readonly string[];
  /** In addition to those of this process. */
  readonly environment: Readonly<Record<string, string>>;
}

export interface UnpackedMpi extends LaunchCommand {
  readonly name: MpiName;
  /** Path of the library. */
  readonly library: string;
}

/** Fills the cache with an MPI from Debian's archive, unless it is there. */
export async function fetchMpi(name: MpiName): Promise<UnpackedMpi> {
  const wanted = { name: implementations[name].package, backported: false };
  await cachedFolder(name, (folder) => unpackDebianPackage(folder, wanted));
  return mpi(name);
}

/** Returns the MPI in the cache. Throws `DebianUnavailable` if it has not been fetched. */
export function mpi(name: MpiName): UnpackedMpi {
  const { library, launcher, options, environment } = implementations[name];
  const folder = cachePath(name);
  const folders = LIBRARIES.map((path) => join(folder, path));
  const found = folders.map((path) => join(path, library)).find((path) => existsSync(path));
  if (found === undefined)
    throw new DebianUnavailable(
      `${name} has not been fetched. On Debian 12 or newer, \`node tools/debian/dist/fetch-mpi.js\` does that ` +
        "without installing anything",
    );
  return {
    name,
    library: found,
    command: join(folder, "usr", "bin", launcher),
    options,
    environment: { ...environment(folder), LD_LIBRARY_PATH: folders.join(":") },
  };
}

/**
 * Returns an MPI for tests, which is fetched if `CI` is set. If there is none otherwise, says so and calls `skip`.
 */
export async function testMpi(name: MpiName, skip: () => never): Promise<UnpackedMpi> {
  if (process.env.CI) return fetchMpi(name);
  try {
    return mpi(name);
  } catch (error) {
    if (!(error instanceof DebianUnavailable)) throw error;
    console.warn(`Tests of ${name} are left out: ${error.reason}`);
    return skip();
  }
}
