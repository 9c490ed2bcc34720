import { type ComputeBackend, createBackend } from "@backplane/core";
import { ReferenceDriver, referenceKernels } from "#src/reference.js";

const supports = [{ dtype: ["f32"] }] as const;

/** As a backend that somebody has just begun: two operations in f32. */
export default function create(): ComputeBackend {
  const { unary, binary } = referenceKernels;
  const kernels = { unary: { ...unary, supports }, binary: { ...binary, supports } };
  return createBackend(Object.assign(new ReferenceDriver(), { kernels }));
}
