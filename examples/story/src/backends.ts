import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry } from "@backplane/core";
import { restartReason, restartWithSoftwareAdapter } from "@backplane/software-adapter";
import type { BackendChoice } from "./options.js";

export const registry: BackendRegistry = new BackendRegistry([webgpu(), cpu()]);

/** The name of the backend to start with; or what to do instead. */
export type Start =
  | { readonly backend: string }
  /** The program ran in another process. */
  | { readonly exitCode: number }
  /** There is no such backend, for this reason. */
  | { readonly missing: string };

/**
 * Chooses a backend. Starts the program again with a software adapter if it needs WebGPU and there is none.
 *
 * @param needsBoth whether the other backend will be needed too
 */
export async function chooseBackend(
  choice: BackendChoice,
  needsBoth: boolean,
  entry: string,
  args: readonly string[],
): Promise<Start> {
  if (choice === "cpu" && !needsBoth) return { backend: "cpu" };
  const listed = (await registry.list()).find(({ name }) => name === "webgpu")!;
  if (choice === "auto" && !needsBoth)
    return { backend: listed.available && !listed.device.software ? "webgpu" : "cpu" };
  if (!listed.available) {
    const restarted = await restartWithSoftwareAdapter(entry, args, listed.reason);
    if ("exitCode" in restarted) return restarted;
    return { missing: `No WebGPU here: ${listed.reason}; ${restarted.reason}. Try --backend cpu.` };
  }
  if (restartReason() !== undefined)
    process.stderr.write("There is no GPU here: WebGPU runs on a software adapter instead.\n");
  return { backend: choice === "webgpu" ? "webgpu" : "cpu" };
}
