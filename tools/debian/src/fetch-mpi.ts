#!/usr/bin/env node
// Fetches Open MPI and MPICH into node_modules/.cache, on Debian: node tools/debian/dist/fetch-mpi.js
import { fetchMpi, mpiNames } from "./mpi.js";
import { DebianUnavailable } from "./packages.js";

try {
  for (const name of mpiNames) console.log(`Fetched ${(await fetchMpi(name)).library}`);
} catch (error) {
  console.error(error instanceof DebianUnavailable ? error.message : error);
  process.exitCode = 1;
}
