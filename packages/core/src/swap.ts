import type { ComputeBackend } from "./backend.js";
import type { Entry } from "./entries.js";
import type { BackendError } from "./errors.js";
import type { DeviceHandle } from "./handles.js";
import { movePieces } from "./pieces.js";

/** An allocation whose contents went with a lost device. */
export interface LostAllocation {
  readonly handle: DeviceHandle;
  readonly bytes: number;
}

/** The result of a swap. */
export interface SwapReport {
  readonly from: string;
  readonly to: string;
  /** Number of live allocations moved with their contents, and their total bytes. */
  readonly allocations: number;
  readonly bytes: number;
  readonly milliseconds: number;
  /** Every live allocation whose contents are gone. Each must be written again before it can be used. */
  readonly lost: readonly LostAllocation[];
}

/** The handles that allocations will have on the next backend. */
export interface Moved {
  readonly handles: ReadonlyMap<Entry, DeviceHandle>;
  /** Number of allocations moved with their contents, and their total bytes. */
  readonly allocations: number;
  readonly bytes: number;
}

/** Copies allocations to another backend. Those in `lost` have no contents and only get room. */
export async function moveAll(
  entries: readonly Entry[],
  lost: ReadonlySet<Entry>,
  old: ComputeBackend,
  next: ComputeBackend,
  assertGoing: () => void,
): Promise<Moved> {
  const handles = new Map<Entry, DeviceHandle>();
  let allocations = 0;
  let bytes = 0;
  for (const entry of entries) {
    assertGoing();
    if (entry.inner === undefined) continue;
    const to = next.alloc(entry.bytes, { zero: false });
    handles.set(entry, to);
    if (lost.has(entry)) continue;
    const source = { backend: old, handle: entry.inner, byteOffset: 0 };
    await movePieces(source, { backend: next, handle: to, byteOffset: 0 }, entry.bytes);
    allocations++;
    bytes += entry.bytes;
  }
  return { handles, allocations, bytes };
}

/** Allocates room for allocations whose contents were lost with a device. */
export function replaceAll(entries: readonly Entry[], next: ComputeBackend): Moved {
  const handles = new Map<Entry, DeviceHandle>();
  let allocations = 0;
  for (const entry of entries) {
    handles.set(entry, next.alloc(entry.bytes, { zero: false }));
    if (entry.bytes === 0) allocations++;
  }
  return { handles, allocations, bytes: 0 };
}

/** Returns the error that says why a backend is lost; undefined if it is not lost. */
export function lossOf(backend: ComputeBackend): BackendError | undefined {
  let loss: BackendError | undefined;
  // A lost backend calls a new listener at once.
  backend.onLost((error) => {
    loss = error;
  })();
  return loss;
}
