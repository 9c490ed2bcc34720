import { softwareVulkan } from "./adapter.js";
import { runWithSoftwareAdapter } from "./run.js";

/** Set in a process that was started again on the software adapter: why there was no other. */
const VARIABLE = "BACKPLANE_NO_GPU";

/** Why this process was started again on the software adapter, if it was. */
export function restartReason(): string | undefined {
  return process.env[VARIABLE];
}

/**
 * Starts a Node.js program again with the software adapter in its environment, which a running process cannot change, and
 * waits. Returns its exit code, or why that cannot be done.
 *
 * @param noGpu why there is no other adapter; the new process gets it from `restartReason`
 */
export async function restartWithSoftwareAdapter(
  entry: string,
  args: readonly string[],
  noGpu: string,
): Promise<{ readonly exitCode: number } | { readonly reason: string }> {
  if (restartReason() !== undefined) return { reason: "the software adapter did not start" };
  try {
    await softwareVulkan();
  } catch (error) {
    return { reason: `there is no software adapter (${(error as Error).message})` };
  }
  const exitCode = await runWithSoftwareAdapter(entry, args, {
    env: { [VARIABLE]: noGpu },
    nodeArguments: process.execArgv,
  });
  return { exitCode };
}
