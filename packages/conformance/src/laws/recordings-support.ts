import { BackendRegistry, type ComputeBackend, type Operand, SwitchableBackend } from "@backplane/core";
import { bytesOf, check } from "../kit/checks.js";
import type { Law, LawContext } from "../law.js";
import { settled } from "../patience.js";
import { createReferenceBackend } from "../reference.js";
import { provider } from "./swapping.js";

/** A backend that implements the interface directly may be older than recordings. */
export function withoutRecord(_: unknown, backend: ComputeBackend): string | undefined {
  return (backend.record as unknown) === undefined ? "it has no record()" : undefined;
}

export function recordingLaw(name: string, run: (context: LawContext) => Promise<void>): Law {
  return { topic: "recordings", name, run, exempt: withoutRecord };
}

/** A switchable backend that starts on the backend under test, and may go to the reference and come back. */
export async function openSwitchable({ unopened }: LawContext, times = 2): Promise<SwitchableBackend> {
  // Providers create at once, the suite only after a while.
  const instances: ComputeBackend[] = [];
  for (let i = 0; i < times; i++) instances.push(await unopened());
  const registry = new BackendRegistry([
    provider("subject", () => instances.shift()!),
    provider("reference", createReferenceBackend),
  ]);
  const backend = new SwitchableBackend(registry, "subject");
  await settled(backend.init(), "init");
  return backend;
}

export async function integersAt(
  backend: ComputeBackend,
  place: Operand,
  count: number,
): Promise<Int32Array> {
  return new Int32Array((await bytesOf(backend, place, 4 * count)).buffer);
}

/** Checks the integers at a place; `what` is for the error. */
export async function holds(
  backend: ComputeBackend,
  place: Operand,
  expected: readonly number[],
  what: string,
): Promise<void> {
  const got = [...(await integersAt(backend, place, expected.length))];
  check(
    got.every((value, i) => value === expected[i]),
    `${what}: got ${got.join(", ")}, expected ${expected.join(", ")}`,
  );
}
