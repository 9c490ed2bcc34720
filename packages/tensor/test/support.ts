import { createCpuBackend } from "@backplane/backend-cpu";
import { BackendError, type ComputeBackend, type ErrorCode } from "@backplane/core";
import { assert } from "chai";

/**
 * Opens a CPU backend that computes on the calling thread, one for each test of a file: what an earlier test forgot
 * may be freed by the garbage collector at any time, which must not change the memory that a test counts.
 */
export function onCpu(): { readonly backend: ComputeBackend } {
  const bench = {} as { backend: ComputeBackend };
  beforeEach(async () => {
    bench.backend = createCpuBackend({ threads: 0 });
    await bench.backend.init();
  });
  afterEach(() => bench.backend.dispose());
  return bench;
}

/** Asserts that a call throws an error with this code, whose message matches. */
export function throws(code: ErrorCode, message: RegExp, body: () => unknown): void {
  try {
    body();
  } catch (error) {
    assertError(error, code, message);
    return;
  }
  assert.fail(`nothing was thrown; expected ${code}, ${message}`);
}

export async function rejects(code: ErrorCode, message: RegExp, promise: Promise<unknown>): Promise<void> {
  const error = await promise.then(
    () => assert.fail(`resolved; expected ${code}, ${message}`),
    (reason: unknown) => reason,
  );
  assertError(error, code, message);
}

function assertError(error: unknown, code: ErrorCode, message: RegExp): void {
  if (!(error instanceof BackendError)) throw error;
  assert.match(error.message, message);
  assert.equal(error.code, code);
}

/** Asserts that numbers are within a distance of others, relative to the largest of them. */
export function assertClose(actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance: number): void {
  assert.equal(actual.length, expected.length);
  const scale = Math.max(1, ...Array.from(expected, Math.abs));
  for (let i = 0; i < expected.length; i++)
    assert.closeTo(actual[i]!, expected[i]!, tolerance * scale, `element ${i}`);
}
