#!/usr/bin/env node
// Fetches OpenBLAS into node_modules/.cache, on Debian: node tools/debian/dist/fetch-openblas.js
import { fetchOpenBlas } from "./openblas.js";
import { DebianUnavailable } from "./packages.js";

try {
  console.log(`Fetched ${await fetchOpenBlas()}`);
} catch (error) {
  console.error(error instanceof DebianUnavailable ? error.message : error);
  process.exitCode = 1;
}
