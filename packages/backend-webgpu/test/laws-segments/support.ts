import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import { type Law, laws } from "@backplane/conformance";
import { operationNames } from "@backplane/core";
import { soonCompiled } from "../laws-support.js";

const operations = operationNames.filter((name) => name !== "unary");

/** Without functions of one element, which differ in nothing that matters here: large.test.ts has a few. */
export const lawsOnOperations: readonly Law[] = laws.filter(({ topic }) =>
  (operations as readonly string[]).includes(topic),
);

/**
 * Operands above what a binding shows are worked on in parts. Real limits start at 128 MiB; with lower
 * ones the small cases of the laws go the same ways. Which of them are divided depends on the limit. How a call is
 * divided is decided before its kernels are, so these are the ones that compile soonest.
 */
export function withBindingsOf(bytes: number): WebGpuBackend {
  return createWebGpuBackend({ ...soonCompiled, limits: { maxStorageBufferBindingSize: bytes } });
}
