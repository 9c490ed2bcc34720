import type { ComputeBackend } from "../backend.js";
import type { DeviceHandle } from "../handles.js";
import type { Place } from "../pieces.js";

/** 0: the first backend; 1: the second. */
export type Side = 0 | 1;

const sides: readonly Side[] = [0, 1];

export function other(side: Side): Side {
  return side === 0 ? 1 : 0;
}

/** The allocation behind a handle of a fallback backend. */
export interface Entry {
  readonly bytes: number;
  /** Its handle on each backend. The second has none before it needs one. */
  readonly handles: [DeviceHandle, DeviceHandle | undefined];
  /** Whether each backend has the present contents. */
  readonly isPresent: [boolean, boolean];
  /** Whether nothing was ever written, so that zeros are the present contents on any backend. */
  isBlank: boolean;
  /** How often its contents were moved. */
  moves: number;
}

export function newEntry(bytes: number, handle: DeviceHandle): Entry {
  return { bytes, handles: [handle, undefined], isPresent: [true, false], isBlank: true, moves: 0 };
}

/** Returns where the contents can be used without a move: on the first backend, if they are there. */
export function homeOf(entry: Entry): Side {
  return entry.isPresent[0] ? 0 : 1;
}

/** Returns how many bytes must be moved to a backend before it has the contents of all entries. */
export function missingBytes(entries: readonly Entry[], side: Side): number {
  let bytes = 0;
  for (const entry of entries) if (!entry.isPresent[side] && !entry.isBlank) bytes += entry.bytes;
  return bytes;
}

/** Notes that one backend has written to the contents. */
export function noteWrite(entry: Entry, side: Side): void {
  entry.isBlank = false;
  entry.isPresent[side] = true;
  entry.isPresent[other(side)] = false;
}

type Backends = readonly [ComputeBackend, ComputeBackend];

/** Gives an allocation memory on a side that has none for it. */
export function makeRoom(entry: Entry, side: Side, backends: Backends): void {
  if (entry.handles[side] !== undefined) return;
  entry.handles[side] = backends[side].alloc(entry.bytes, { zero: entry.isBlank });
  entry.isPresent[side] = entry.isBlank;
}

/** Frees the memory on all backends that still have it. */
export function release(entry: Entry, backends: Backends): void {
  for (const side of sides) {
    const handle = entry.handles[side];
    if (handle !== undefined && backends[side].state === "open") backends[side].free(handle);
  }
}

/** Returns the two ends of a move: its source and its destination. */
export function endsOf(entry: Entry, to: Side, backends: Backends): readonly [Place, Place] {
  const end = (side: Side): Place => ({
    backend: backends[side],
    handle: entry.handles[side]!,
    byteOffset: 0,
  });
  return [end(other(to)), end(to)];
}
