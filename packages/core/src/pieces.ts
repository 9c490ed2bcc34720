import type { ComputeBackend } from "./backend.js";
import { movesDirectly } from "./create.js";
import { BackendError, isBackendError } from "./errors.js";
import { type DeviceHandle, describe, type Operand } from "./handles.js";
import { Checks } from "./ops/checks.js";

/**
 * Contents pass through the host in pieces of this many bytes, so that a move needs little memory, and its second copy
 * finds a piece in the cache: pieces of 16 MiB take 1.15 times as long (between a Xeon and an H100, in turns).
 */
const pieceBytes = 4 * 2 ** 20;

/** Of moves into memory of the host: enough for several workers to prepare. */
const directPieceBytes = 32 * 2 ** 20;

/** A place in an allocation of a backend. */
export interface Place
  extends Readonly<{ backend: ComputeBackend; handle: DeviceHandle; byteOffset: number }> {}

/**
 * Copies `bytes` bytes between allocations of two backends. If the memory of one of them belongs to the host (see
 * `BackendDriver.hostBytes`), the other reads or writes it directly. Else they pass through the host in pieces of 4 MiB; the
 * next piece is read while one is written. Other calls must not write to the source, nor use the destination, before the promise
 * settles. Errors about an operand name `copyBetween` and the argument, and come before anything is copied. With one and the
 * same backend, this is `copyDtoD`, whose errors it has.
 */
export async function copyBetween(
  from: ComputeBackend,
  source: Operand,
  to: ComputeBackend,
  destination: Operand,
  bytes: number,
): Promise<void> {
  new Checks("copyBetween").count("bytes", bytes);
  if (from === to && isBackend(to)) {
    to.copyDtoD(destination, source, bytes);
    return;
  }
  checkPlace("copyBetween", "source", from, source, bytes);
  checkPlace("copyBetween", "destination", to, destination, bytes);
  await movePieces(placeOf(from, source), placeOf(to, destination), bytes);
}

/** Whether a value, which may come from JavaScript, can be a backend: what a registry's open() returns is none. */
function isBackend(value: Partial<ComputeBackend> | null | undefined): boolean {
  return typeof value?.fill === "function";
}

/**
 * Throws unless an operand of a backend is the place of so many bytes, and the backend can be used. For functions that read
 * and write allocations step by step, and are to name themselves and their argument in the error.
 */
export function checkPlace(
  operation: string,
  argument: string,
  backend: ComputeBackend,
  operand: Operand,
  bytes: number,
): void {
  if (!isBackend(backend))
    new Checks(operation).fail("backend", `of ${argument} is ${describe(backend)}; allowed: a backend`);
  const { handle, byteOffset } = placeOf(backend, operand);
  const end = byteOffset + bytes;
  try {
    // Only the backend knows its allocations. A fill of nothing has it check a place.
    for (const place of [operand, { handle, byteOffset: end }]) backend.fill(place, 0, 0, "u8");
  } catch (error) {
    if (!isBackendError(error)) throw error;
    const message = error.message
      .replace(/^fill: destination/, `fill: ${argument}`)
      .replace(/^fill: /, "")
      .replace(/needs bytes \d+\.\.\d+ of/, `needs bytes ${byteOffset}..${end} of`);
    throw new BackendError(error.code, `${operation}: ${message}`, { operation, argument, cause: error });
  }
}

function placeOf(backend: ComputeBackend, operand: Operand): Place {
  return typeof operand === "object" && operand !== null
    ? { backend, handle: operand.handle, byteOffset: operand.byteOffset }
    : { backend, handle: operand, byteOffset: 0 };
}

/** `copyBetween` for places that need no checks. */
export async function movePieces(source: Place, destination: Place, bytes: number): Promise<void> {
  const isDirect =
    (await withHostBytes(source, bytes, false, (from) => write(destination, from, bytes))) ||
    (await readDirectly(source, destination, bytes));
  if (!isDirect) await moveThroughHost(source, destination, bytes);
}

async function withHostBytes(
  place: Place,
  bytes: number,
  isWritten: boolean,
  use: (bytes: Uint8Array<ArrayBufferLike>) => Promise<void>,
): Promise<boolean> {
  const { backend } = place;
  return movesDirectly(backend) && (await backend.withHostBytes(place, bytes, isWritten, use));
}

async function write(destination: Place, from: Uint8Array<ArrayBufferLike>, bytes: number): Promise<void> {
  const { backend } = destination;
  // Other memory may be gone before a promise resolves.
  const stays = !(from.buffer instanceof ArrayBuffer);
  if (!stays || !movesDirectly(backend)) backend.copyHtoD(placeAt(destination, 0), from);
  else if (!(await withHostBytes(destination, bytes, true, async (to) => to.set(from))))
    await backend.copyFrom(destination, from);
}

/**
 * Reads into memory of the host. Two pieces at a time: one is read while the destination prepares its memory for the next. No
 * piece begins after one has failed, and none is under way when this rejects: the destination is the caller's again.
 */
async function readDirectly(source: Place, destination: Place, bytes: number): Promise<boolean> {
  const readFrom = (start: number): Promise<boolean> => {
    const length = Math.min(directPieceBytes, bytes - start);
    const place = { ...destination, byteOffset: destination.byteOffset + start };
    return withHostBytes(place, length, true, (to) => source.backend.copyDtoH(to, placeAt(source, start)));
  };
  let isDirect = true;
  const failures: unknown[] = [];
  const readEverySecond = async (first: number): Promise<void> => {
    for (let start = first; start < bytes && isDirect && failures.length === 0; start += 2 * directPieceBytes)
      try {
        if (!(await readFrom(start))) isDirect = false;
      } catch (error) {
        failures.push(error);
      }
  };
  await Promise.all([readEverySecond(0), readEverySecond(directPieceBytes)]);
  if (failures.length > 0) throw failures[0];
  return isDirect;
}

async function moveThroughHost(source: Place, destination: Place, bytes: number): Promise<void> {
  // Two buffers: one is filled while the other is written.
  const buffers = Array.from({ length: Math.min(2, Math.ceil(bytes / pieceBytes)) }, () => bufferFor(bytes));
  const read = async (start: number): Promise<Uint8Array> => {
    const piece = pieceAt(buffers[(start / pieceBytes) % 2]!, start, bytes);
    await source.backend.copyDtoH(piece, placeAt(source, start));
    return piece;
  };
  let next = bytes > 0 ? read(0) : undefined;
  for (let start = 0; next !== undefined; start += pieceBytes) {
    const piece: Uint8Array = await next;
    const following = start + pieceBytes;
    next = following < bytes ? read(following) : undefined;
    try {
      destination.backend.copyHtoD(placeAt(destination, start), piece);
    } catch (error) {
      // The source is the caller's again only after the read that is under way.
      await next?.catch(() => {});
      throw error;
    }
  }
}

/** `movePieces` from a backend that reads synchronously. */
export function movePiecesSync(source: Place, destination: Place, bytes: number): void {
  const buffer = bufferFor(bytes);
  for (let start = 0; start < bytes; start += pieceBytes) {
    const piece = pieceAt(buffer, start, bytes);
    source.backend.copyDtoHSync(piece, placeAt(source, start));
    destination.backend.copyHtoD(placeAt(destination, start), piece);
  }
}

function bufferFor(bytes: number): Uint8Array {
  return new Uint8Array(Math.min(pieceBytes, bytes));
}

function pieceAt(buffer: Uint8Array, start: number, bytes: number): Uint8Array {
  return buffer.subarray(0, Math.min(pieceBytes, bytes - start));
}

function placeAt({ handle, byteOffset }: Place, start: number): Operand {
  return { handle, byteOffset: byteOffset + start };
}
