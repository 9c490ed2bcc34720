import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry } from "@backplane/core";
import { restartReason, restartWithSoftwareAdapter } from "@backplane/software-adapter";
import type { BackendChoice } from "./options.js";

export const registry: BackendRegistry = new BackendRegistry([webgpu(), cpu()]);

/** The backend to start with, and why there is no WebGPU where it was needed. */
export interface Start {
  readonly backend: string;
  readonly missing: string | undefined;
}

/**
 * Chooses a backend. Starts the program again with a software adapter if it needs WebGPU and there is none; then the result
 * is the exit code.
 *
 * @param needsBoth whether the other backend will be needed too
 */
export async function chooseBackend(
  choice: BackendChoice,
  needsBoth: boolean,
  entry: string,
  args: readonly string[],
): Promise<Start | { readonly exitCode: number }> {
  if (choice === "cpu" && !needsBoth) return { backend: "cpu", missing: undefined };
  const listed = (await registry.list()).find(({ name }) => name === "webgpu")!;
  const hasGpu = listed.available && !listed.device.software;
  const backend = choice === "webgpu" || (choice === "auto" && hasGpu) ? "webgpu" : "cpu";
  if (choice === "auto" && !needsBoth) return { backend, missing: undefined };
  if (!listed.available) {
    const restarted = await restartWithSoftwareAdapter(entry, args, listed.reason);
    if ("exitCode" in restarted) return restarted;
    return { backend, missing: `No WebGPU here: ${listed.reason}; ${restarted.reason}.` };
  }
  if (restartReason() !== undefined)
    process.stderr.write("There is no GPU here: WebGPU runs on a software adapter instead.\n");
  return { backend, missing: undefined };
}
