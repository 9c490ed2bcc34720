import { BackendError, Checks, type ComputeBackend, checkNames } from "@backplane/core";
import { createReferenceBackend } from "../reference.js";
import { CompareBackend } from "./backend.js";
import { bytesOf, type CallReplay, makeReplayed } from "./replay.js";
import type { Divergence } from "./report.js";

/**
 * Makes one call, as a `Divergence` has it, on a new backend, and compares its results with the formula, within the bounds
 * that the backend's declared numerics grant. Resolves with the divergence, or with undefined if the backend keeps the bounds.
 * Rejects with `INVALID_ARGUMENT` if a field of `replay` is missing, unknown or malformed, and with the backend's error if it cannot be opened or refuses
 * the call. A regression test in a line:
 *
 *   assert.isUndefined(await checkCall(() => createMyBackend(), replay));
 */
export async function checkCall(
  create: () => ComputeBackend | Promise<ComputeBackend>,
  replay: CallReplay,
): Promise<Divergence | undefined> {
  const checks = new Checks("checkCall");
  checks.object("replay", replay);
  checkNames("checkCall", replay, ["operation", "args", "memory"], "replay");
  const contents = checks.list("replay.memory", replay.memory, "bytes or texts").map(bytesOf);
  checks.object("replay.args", replay.args);
  const backend = new CompareBackend(await create(), createReferenceBackend(), { warn: () => {} });
  try {
    await backend.init();
    const handles = contents.map((bytes) => {
      const handle = backend.alloc(bytes.length);
      backend.copyHtoD(handle, bytes);
      return handle;
    });
    makeReplayed(backend, replay, handles);
    await backend.synchronize();
    const { first, skipped } = backend.report();
    for (const { operation, reason } of skipped)
      throw new BackendError("UNSUPPORTED", `checkCall: ${operation} could not be compared: ${reason}`, {
        operation: "checkCall",
      });
    return first;
  } finally {
    await backend.dispose();
  }
}
