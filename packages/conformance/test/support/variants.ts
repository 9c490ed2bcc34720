import type { ComputeBackend } from "@backplane/core";
import { describeBackend, type Law, laws } from "#src/index.js";

/** Which laws show what a variant of an operation does. */
export const topics: Readonly<Record<string, readonly string[]>> = {
  gemm: ["gemm", "batchedGemm"],
  conv2d: ["conv2d"],
  attention: ["attention"],
};

/**
 * Larger shapes are left out: they lead across the thresholds between variants, and here is only one.
 */
export function lawsOn(operations: readonly string[]): readonly Law[] {
  const wanted = operations.flatMap((operation) => topics[operation]!);
  return laws.filter(({ topic, name }) => wanted.includes(topic) && !name.includes("larger shapes"));
}

export function describeVariant(
  name: string,
  create: () => ComputeBackend,
  laws: readonly Law[],
  runs: number,
): void {
  describeBackend({ name, create, options: { laws, runs } }, globalThis);
}
