import type {
  BackendError,
  ComputeBackend,
  DeviceHandle,
  ErrorCode,
  HostBytes,
  Operand,
} from "@backplane/core";
import { random } from "../data.js";
import type { Law, LawContext } from "../law.js";
import { Hung, settled } from "../patience.js";

/** A law that is not about one operation. */
export function law(topic: string, name: string, run: (context: LawContext) => Promise<void>): Law {
  return { topic, name, run };
}

/** For laws on bounds that hold only if every step is rounded to the nearest number. */
export const correctlyRounded: Pick<Law, "grade" | "promise"> = {
  grade: "tight",
  promise: { flag: "rounding", value: "nearest-even" },
};

/** For laws that need one allocation of this many bytes. */
export function unlessRoom(bytes: number): NonNullable<Law["exempt"]> {
  return ({ limits }) =>
    limits.maxAllocationBytes >= bytes
      ? undefined
      : `no more than ${limits.maxAllocationBytes} bytes can be allocated`;
}

export function check(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}

/**
 * Checks that a synchronous call throws a `BackendError` with this code. Compares name and code of the error,
 * so that a second copy of the class in the program does no harm.
 */
export function refuses(code: ErrorCode, what: string, call: () => unknown): BackendError {
  let answer: unknown;
  try {
    answer = call();
  } catch (error) {
    return checkCode(error, code, what);
  }
  if (answer instanceof Promise) answer.catch(() => {});
  throw new Error(`${what}: was accepted; the contract says ${code}`);
}

/** Checks that a call that returns a promise rejects it with this code, and throws nothing. */
export async function rejects(
  code: ErrorCode,
  what: string,
  call: () => Promise<unknown>,
): Promise<BackendError> {
  let promise: Promise<unknown>;
  try {
    promise = call();
  } catch (error) {
    throw new Error(`${what}: threw instead of rejecting its promise (${String(error)})`);
  }
  try {
    await settled(promise, what);
  } catch (error) {
    if (error instanceof Hung) throw error;
    return checkCode(error, code, what);
  }
  throw new Error(`${what}: was accepted; the contract says ${code}`);
}

function checkCode(error: unknown, code: ErrorCode, what: string): BackendError {
  const { name, code: actual, message } = (error ?? {}) as Partial<BackendError>;
  if (name !== "BackendError") throw new Error(`${what}: failed with ${String(error)}, not a BackendError`);
  if (actual !== code) throw new Error(`${what}: failed with ${actual}, not ${code} (${message})`);
  return error as BackendError;
}

/** Reads bytes of an allocation. */
export async function bytesOf(
  backend: ComputeBackend,
  source: Operand,
  length: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  await settled(backend.copyDtoH(bytes, source), "copyDtoH");
  return bytes;
}

/** Bytes that differ from their neighbours, the same for the same seed. */
export function pattern(length: number, seed: number): Uint8Array<ArrayBuffer> {
  const next = random(seed + 1);
  return new Uint8Array(length).map(() => Math.floor(next() * 256));
}

/** Checks that two arrays hold the same bytes. */
export function sameBytes(got: HostBytes, expected: HostBytes, what: string): void {
  const [a, b] = [asBytes(got), asBytes(expected)];
  check(a.length === b.length, `${what}: ${a.length} bytes, expected ${b.length}`);
  for (let i = firstWordApart(a, b); i < a.length; i++)
    if (a[i] !== b[i]) {
      const near = (bytes: Uint8Array) =>
        [...bytes.subarray(Math.max(0, i - 2), i + 6)].map((byte) => byte.toString(16).padStart(2, "0"));
      throw new Error(
        `${what}: byte ${i} of ${a.length} differs; got ${near(a).join(" ")}, expected ${near(b).join(" ")} ` +
          `(from byte ${Math.max(0, i - 2)})`,
      );
    }
}

/** Returns a place to begin the search for a difference: large arrays are equal word by word up to there. */
function firstWordApart(a: Uint8Array<ArrayBufferLike>, b: Uint8Array<ArrayBufferLike>): number {
  if (a.byteOffset % 4 !== 0 || b.byteOffset % 4 !== 0) return 0;
  const count = a.length >> 2;
  const [wordsA, wordsB] = [a, b].map(({ buffer, byteOffset }) => new Uint32Array(buffer, byteOffset, count));
  let word = 0;
  while (word < count && wordsA![word] === wordsB![word]) word++;
  return 4 * word;
}

function asBytes(host: HostBytes): Uint8Array<ArrayBufferLike> {
  return ArrayBuffer.isView(host)
    ? new Uint8Array(host.buffer, host.byteOffset, host.byteLength)
    : new Uint8Array(host);
}

/** Allocates memory, uses it, and frees it again, even if the use fails. */
export async function withAllocations<const Sizes extends readonly number[]>(
  backend: ComputeBackend,
  sizes: Sizes,
  use: (...handles: { [Index in keyof Sizes]: DeviceHandle }) => Promise<void>,
): Promise<void> {
  const handles: DeviceHandle[] = [];
  try {
    for (const size of sizes) handles.push(backend.alloc(size));
    await use(...(handles as unknown as { [Index in keyof Sizes]: DeviceHandle }));
  } finally {
    for (const handle of handles) backend.free(handle);
  }
}

/** Checks that are made as reads come in. Failures wait for `all`, which throws the first of them. */
export class PendingChecks {
  readonly #checks: Promise<unknown>[] = [];

  add(check: Promise<unknown>): void {
    // Until `all` looks at it, nobody has to handle a failure.
    check.catch(() => {});
    this.#checks.push(check);
  }

  /** Settles only when every check has, so that nothing continues in the background. */
  async all(): Promise<void> {
    const checks = this.#checks.splice(0);
    await Promise.allSettled(checks);
    await Promise.all(checks);
  }
}
