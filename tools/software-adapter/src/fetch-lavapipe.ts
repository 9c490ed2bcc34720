#!/usr/bin/env node
// Fetches lavapipe into node_modules/.cache, on Debian: node tools/software-adapter/dist/fetch-lavapipe.js
import { fetchLavapipe } from "./adapter.js";
import { SoftwareAdapterUnavailable } from "./unavailable.js";

try {
  console.log(`Fetched ${(await fetchLavapipe()).description}`);
} catch (error) {
  console.error(error instanceof SoftwareAdapterUnavailable ? error.message : error);
  process.exitCode = 1;
}
