import type { Law } from "@backplane/conformance";
import { operationNames } from "@backplane/core";

/** Whether a law is on what an operation gives, and not on what is around it. */
function isOnResults({ topic }: Law): boolean {
  return topic === "accuracy" || (operationNames as readonly string[]).includes(topic);
}

/** Whether a law is on what is around all kernels alike, such as memory, order, threads and loss, or on products. */
export function isAroundAll({ operation }: Law): boolean {
  return operation === undefined || operation === "gemm";
}

/** Whether a law is on results that are large enough for threads to share the work. */
export function isOnSharedWork(law: Law): boolean {
  return isOnResults(law) && /larger shapes|many elements/.test(law.name);
}

/** Whether a law on an operation is worth its time on every engine, with threads. */
export function isOnEveryEngine(law: Law): boolean {
  const { topic, name, dtype } = law;
  if (isAroundAll(law)) return false;
  // In all other types the same work is shared in the same way, and maps are programs of the suite's own.
  const isFirstOfSharedWork = dtype === "f32" && name.endsWith("larger shapes") && topic !== "map";
  return isOnResults(law) ? isOnSharedWork(law) && isFirstOfSharedWork : true;
}

/** Operations whose threads wait for each other within a call. */
const inSteps: readonly string[] = ["reduce", "softmax"];

/** Whether a law is worth its time in every run, with threads, of which no two runs are alike. */
export function isEachTime(law: Law): boolean {
  return isAroundAll(law) || (isOnEveryEngine(law) && inSteps.includes(law.topic));
}
