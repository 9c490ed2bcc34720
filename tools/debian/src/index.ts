export { cachedFolder, cachePath } from "./cache.js";
export { fetchCommand } from "./command.js";
export {
  fetchMpi,
  type LaunchCommand,
  type MpiName,
  mpi,
  mpiNames,
  testMpi,
  type UnpackedMpi,
} from "./mpi.js";
export { fetchOpenBlas, openBlas, testBlas } from "./openblas.js";
export { type DebianPackage, DebianUnavailable, LIBRARIES, unpackDebianPackage } from "./packages.js";
