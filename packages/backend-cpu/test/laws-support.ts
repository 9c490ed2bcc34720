import type { Law } from "@backplane/conformance";
import { operationNames } from "@backplane/core";

/**
 * Whether a law is on what is around the kernels, such as memory, order, threads and loss; of those on results
 * it has products only, whose work is shared between threads.
 */
export function isAroundKernels({ topic }: Law): boolean {
  return topic === "gemm" || (topic !== "accuracy" && !(operationNames as readonly string[]).includes(topic));
}
