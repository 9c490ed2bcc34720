import type { Law } from "@backplane/conformance";
import { operationNames } from "@backplane/core";

/** Whether a law is on what an operation gives, and not on what is around it. */
function isOnResults({ topic }: Law): boolean {
  return topic === "accuracy" || (operationNames as readonly string[]).includes(topic);
}

/**
 * Whether a law is on what is around the kernels, such as memory, order, threads and loss; of those on results
 * it has products only, whose work is shared between threads.
 */
export function isAroundKernels(law: Law): boolean {
  return law.topic === "gemm" || !isOnResults(law);
}

/** Whether a law is on what is around all kernels alike, or on products. */
export function isAroundAll({ operation }: Law): boolean {
  return operation === undefined || operation === "gemm";
}

/** Whether a law is on results that are large enough for threads to share the work. */
export function isOnSharedWork(law: Law): boolean {
  return isOnResults(law) && /larger shapes|many elements/.test(law.name);
}

/** Whether a law is one of those on shared work that are worth their time in every run, on every engine. */
export function isEverywhere(law: Law): boolean {
  const { topic, name, dtype } = law;
  // In all other types the same work is shared in the same way, and maps are programs of the suite's own.
  return isOnSharedWork(law) && dtype === "f32" && name.endsWith("larger shapes") && topic !== "map";
}
