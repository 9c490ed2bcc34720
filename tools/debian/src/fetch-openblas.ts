#!/usr/bin/env node
import { fetchCommand } from "./command.js";
import { fetchOpenBlas } from "./openblas.js";
import { DebianUnavailable } from "./packages.js";

await fetchCommand(
  "usage: fetch-openblas.js\nFetches OpenBLAS into node_modules/.cache, on Debian.",
  async function* () {
    yield await fetchOpenBlas();
  },
  (error) => error instanceof DebianUnavailable,
);
