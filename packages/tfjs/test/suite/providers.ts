import { cpu } from "@backplane/backend-cpu";
import type { BackendProvider } from "@backplane/core";

/** The backends that tests register, by the name of the first one. */
export async function providersOf(name: string): Promise<readonly BackendProvider[]> {
  if (name === "cpu") return [cpu()];
  const { webgpu } = await import("@backplane/backend-webgpu");
  return [webgpu()];
}
