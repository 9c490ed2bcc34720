import { createBackend } from "@backplane/core";
import type { BackendKernels } from "./backend.js";
import { allKernels } from "./kernels/all.js";

/** All kernels of this package. */
export const all: BackendKernels = {
  set: allKernels,
  // There is no other operation of core to give advice on.
  known: { operations: allKernels.definitions, advice: () => "" },
  make: createBackend,
};
