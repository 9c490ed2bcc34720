#!/usr/bin/env node
import { fetchCommand } from "./command.js";
import { fetchMpi, mpiNames } from "./mpi.js";
import { DebianUnavailable } from "./packages.js";

await fetchCommand(
  "usage: fetch-mpi.js\nFetches Open MPI and MPICH into node_modules/.cache, on Debian.",
  async function* () {
    for (const name of mpiNames) yield (await fetchMpi(name)).library;
  },
  (error) => error instanceof DebianUnavailable,
);
