import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export type OpenedAdapter =
  | {
      readonly found: true;
      readonly vendor: string;
      readonly architecture: string;
      readonly description: string;
    }
  | { readonly found: false; readonly reason: string };

const program = fileURLToPath(new URL("./open-adapter.js", import.meta.url));
/** Against hangs only: then the process is killed. */
const LIMIT_MILLISECONDS = 300_000;

/**
 * Returns the adapter that Dawn finds in this environment. Asks in a process of its own, because a driver may
 * crash it.
 */
export async function openAdapterIn(env: Readonly<Record<string, string>>): Promise<OpenedAdapter> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [program], {
      env: { ...process.env, ...env },
      timeout: LIMIT_MILLISECONDS,
    });
    return JSON.parse(stdout) as OpenedAdapter;
  } catch (error) {
    return { found: false, reason: (error as Error).message.trim() };
  }
}
