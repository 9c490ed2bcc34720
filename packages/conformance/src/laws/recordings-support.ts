import { BackendRegistry, type ComputeBackend, SwitchableBackend } from "@backplane/core";
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
