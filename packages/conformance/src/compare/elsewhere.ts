import type { ComputeBackend, DeviceHandle, Operand } from "@backplane/core";
import type { ReferenceMemory } from "../elements.js";
import { type Fetched, fetchAll, type Patch, placeIn } from "./patches.js";
import { makeElsewhere, type Watched } from "./watched.js";

/**
 * Makes a call on a backend that has nothing of the call's operands: gives it their bytes, and reads those that may have
 * changed. Nothing stays there. Throws what the backend throws.
 */
export function madeElsewhere(
  backend: ComputeBackend,
  { call, args }: Watched,
  patches: readonly Patch[],
  before: readonly ReferenceMemory[],
  onFault: (error: unknown) => void = () => {},
): Fetched {
  const handles: DeviceHandle[] = [];
  try {
    if (call === undefined) {
      const handle = backend.alloc((args as { readonly bytes: number }).bytes);
      handles.push(handle);
      return fetchAll(backend, [{ handle, start: 0, length: patches[0]!.length }], onFault);
    }
    for (const [index, { length }] of patches.entries()) {
      const handle = backend.alloc(length, { zero: false });
      handles.push(handle);
      backend.copyHtoD(handle, before[index]!);
    }
    const place = (operand: Operand): Operand => {
      const { index, byteOffset } = placeIn(patches, operand);
      return { handle: handles[index]!, byteOffset };
    };
    makeElsewhere(backend, call, place);
    const written = patches.flatMap(({ isWritten, length }, index) =>
      isWritten ? [{ handle: handles[index]!, start: 0, length }] : [],
    );
    return fetchAll(backend, written, onFault);
  } finally {
    if (backend.state === "open") for (const handle of handles) backend.free(handle);
  }
}

/** Returns the bytes of all patches after a call, given those of the patches that it may have changed. */
export function after(
  patches: readonly Patch[],
  before: readonly ReferenceMemory[],
  changed: readonly ReferenceMemory[],
): readonly ReferenceMemory[] {
  let next = 0;
  return patches.map(({ isWritten }, index) => (isWritten ? changed[next++]! : before[index]!));
}
