export { cachedFolder, cachePath } from "./cache.js";
export { fetchOpenBlas, openBlas, testBlas } from "./openblas.js";
export { type DebianPackage, DebianUnavailable, LIBRARIES, unpackDebianPackage } from "./packages.js";
