import { existsSync } from "node:fs";
import { join } from "node:path";
import { type LibraryHandle, load } from "koffi";
import { cachedFolder, cachePath } from "./cache.js";
import { DebianUnavailable, LIBRARIES, unpackDebianPackage } from "./packages.js";

const FOLDER = "openblas";
/** With threads of its own, as machines with OpenBLAS usually have it. */
const PACKAGE = "libopenblas0-pthread";
const LIBRARY = "openblas-pthread/libopenblas.so.0";
/** The compilers' libraries that it needs, each before those that need it. */
const NEEDED = ["libgcc_s.so.1", "libquadmath.so.0", "libgfortran.so.5"];

/** Fills the cache with OpenBLAS from Debian's archive, unless it is there. Returns the path of the library. */
export async function fetchOpenBlas(): Promise<string> {
  await cachedFolder(FOLDER, (folder) => unpackDebianPackage(folder, { name: PACKAGE, backported: false }));
  return openBlas();
}

/** Kept, since koffi closes libraries that nobody references. */
const loaded: LibraryHandle[] = [];

/**
 * Returns the path of the OpenBLAS in the cache. Loads its accompanying libraries into this process by their
 * paths, where the system's loader would not look. Throws `DebianUnavailable` if it has not been fetched.
 */
export function openBlas(): string {
  const folders = LIBRARIES.map((path) => join(cachePath(FOLDER), path));
  const find = (name: string) => folders.map((path) => join(path, name)).find((path) => existsSync(path));
  const library = find(LIBRARY);
  if (library === undefined)
    throw new DebianUnavailable(
      "OpenBLAS has not been fetched. On Debian 12 or newer, `node tools/debian/dist/fetch-openblas.js` does " +
        "that without installing anything",
    );
  if (loaded.length === 0)
    for (const path of NEEDED.map(find)) if (path !== undefined) loaded.push(load(path));
  return library;
}

const ACCELERATE = "/System/Library/Frameworks/Accelerate.framework/Accelerate";

/**
 * Returns the library for tests of native BLAS: Accelerate on macOS, elsewhere OpenBLAS, which is fetched if
 * `CI` is set. If there is none otherwise, says so and calls `skip`.
 */
export async function testBlas(skip: () => never): Promise<string> {
  if (process.platform === "darwin") return ACCELERATE;
  if (process.env.CI) return fetchOpenBlas();
  try {
    return openBlas();
  } catch (error) {
    if (!(error instanceof DebianUnavailable)) throw error;
    console.warn(`Tests of native BLAS are left out: ${error.reason}`);
    return skip();
  }
}
