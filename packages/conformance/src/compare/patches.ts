import type { ComputeBackend, DeviceHandle, Operand } from "@backplane/core";
import type { Use } from "./watched.js";

/** A part of an allocation with all that a call uses there, and some bytes around it, which must stay as they are. */
export interface Patch {
  readonly handle: DeviceHandle;
  readonly start: number;
  readonly length: number;
  readonly isWritten: boolean;
}

/** Bytes around operands that are compared as well. */
const guardBytes = 64;

/** Patches begin at multiples of this, so that operands are aligned on the other backend as they are on the first. */
const alignment = 256;

/**
 * Returns patches that have all uses of a call, each in one. Undefined if a use reaches out of its allocation, or
 * the allocation is not known.
 */
export function patchesFor(
  uses: readonly Use[],
  sizeOf: (handle: DeviceHandle) => number | undefined,
): readonly Patch[] | undefined {
  const patches: Patch[] = [];
  const byPlace = [...uses].sort((a, b) => a.handle - b.handle || a.start - b.start);
  for (const { handle, start, length, isWritten } of byPlace) {
    const size = sizeOf(handle);
    // The call itself says what is wrong with such a place.
    if (size === undefined || !Number.isSafeInteger(start) || start < 0 || start + length > size)
      return undefined;
    const first = Math.max(0, start - guardBytes);
    const from = first - (first % alignment);
    const end = Math.min(size, start + length + guardBytes);
    const last = patches.at(-1);
    if (last === undefined || last.handle !== handle || last.start + last.length <= from)
      patches.push({ handle, start: from, length: end - from, isWritten });
    else {
      patches.pop();
      patches.push({
        ...{ handle, start: last.start, length: Math.max(last.start + last.length, end) - last.start },
        isWritten: last.isWritten || isWritten,
      });
    }
  }
  return patches;
}

/** Returns the index of the patch with a place in it, or -1. */
export function patchAt(patches: readonly Patch[], handle: DeviceHandle, place: number): number {
  return patches.findIndex(
    (patch) => patch.handle === handle && patch.start <= place && place <= patch.start + patch.length,
  );
}

/** Returns where an operand lies among the patches. One of which nothing is used may lie anywhere. */
export function placeIn(
  patches: readonly Patch[],
  operand: Operand,
): { readonly index: number; readonly byteOffset: number } {
  const [handle, offset] = placeOf(operand);
  const index = patchAt(patches, handle, offset);
  return index < 0 ? { index: 0, byteOffset: 0 } : { index, byteOffset: offset - patches[index]!.start };
}

export function placeOf(operand: Operand): readonly [handle: DeviceHandle, byteOffset: number] {
  return typeof operand === "object" ? [operand.handle, operand.byteOffset] : [operand, 0];
}

/** Bytes that are read, or will be once `wait` has resolved. */
export interface Fetched {
  readonly bytes: readonly Uint8Array<ArrayBuffer>[];
  readonly wait: Promise<void> | undefined;
}

/** Reads regions as the calls so far leave them: at once if the backend can. `onFault` gets older faults of the device. */
export function fetchAll(
  backend: ComputeBackend,
  regions: readonly { readonly handle: DeviceHandle; readonly start: number; readonly length: number }[],
  onFault: (error: unknown) => void,
): Fetched {
  const waits: Promise<void>[] = [];
  const bytes = regions.map(({ handle, start, length }) => {
    const target = new Uint8Array(length);
    const source = { handle, byteOffset: start };
    if (!readNow(backend, target, source, onFault)) waits.push(backend.copyDtoH(target, source));
    return target;
  });
  if (waits.length === 0) return { bytes, wait: undefined };
  // Nobody may be waiting yet when one rejects.
  const wait = Promise.all(waits).then(() => {});
  wait.catch(() => {});
  return { bytes, wait };
}

function readNow(
  backend: ComputeBackend,
  target: Uint8Array<ArrayBuffer>,
  source: Operand,
  onFault: (error: unknown) => void,
): boolean {
  if (!backend.capabilities.synchronousReads) return false;
  const isBusy = (error: unknown) => (error as { readonly code?: string }).code === "BUSY";
  try {
    backend.copyDtoHSync(target, source);
  } catch (error) {
    if (isBusy(error)) return false;
    // Older faults are reported once. The contents are still wanted.
    onFault(error);
    backend.copyDtoHSync(target, source);
  }
  return true;
}
