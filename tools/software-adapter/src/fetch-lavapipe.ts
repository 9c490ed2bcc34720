#!/usr/bin/env node
import { fetchCommand } from "@backplane/debian";
import { fetchLavapipe } from "./adapter.js";
import { SoftwareAdapterUnavailable } from "./unavailable.js";

await fetchCommand(
  "usage: fetch-lavapipe.js\nFetches lavapipe into node_modules/.cache, on Debian.",
  async function* () {
    yield (await fetchLavapipe()).description;
  },
  (error) => error instanceof SoftwareAdapterUnavailable,
);
