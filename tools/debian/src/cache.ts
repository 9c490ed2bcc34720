import { access, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const workspaceRoot = fileURLToPath(new URL("../../..", import.meta.url));

/** Returns the path of the folder of this name, whether it exists or not. */
export function cachePath(name: string): string {
  return join(workspaceRoot, "node_modules", ".cache", "backplane", name);
}

/**
 * A folder under node_modules/.cache that `fill` has filled, once. Each process fills a folder of its
 * own and renames it into place, so several may start at the same time: the first rename wins, and
 * nobody ever sees a half-filled folder.
 */
export async function cachedFolder(name: string, fill: (folder: string) => Promise<void>): Promise<string> {
  const folder = cachePath(name);
  if (await exists(folder)) return folder;
  await mkdir(dirname(folder), { recursive: true });
  const temporary = await mkdtemp(`${folder}.`);
  try {
    await fill(temporary);
    await rename(temporary, folder);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    if (!(await exists(folder))) throw error;
  }
  return folder;
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}
