import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { openAdapterIn } from "./probe.js";
import { SoftwareAdapterUnavailable } from "./unavailable.js";

/** How to get the missing adapter. */
const HOW_TO_GET_IT =
  "On Debian 12 or newer, `node tools/software-adapter/dist/fetch-lavapipe.js` fetches it without " +
  "installing anything; elsewhere, install Mesa's Vulkan drivers, 25 or newer.";

/** Folders in which distributions, and people who build Mesa themselves, put the descriptions of Vulkan drivers. */
const SYSTEM_FOLDERS = ["/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d"];

export interface Lavapipe {
  /** The environment in which it is the only Vulkan driver. */
  readonly env: Record<string, string>;
  /** As Dawn describes it, with its versions. */
  readonly description: string;
}

/**
 * The first of the drivers described by `icdFiles` that Dawn accepts. Dawn is asked, because it refuses
 * a lavapipe that is too old (Mesa 22.3 of Debian 12), and one whose libraries are missing.
 *
 * @param environment The environment in which the driver is loaded.
 */
export async function acceptedLavapipe(
  icdFiles: readonly string[],
  environment: (icdFile: string) => Record<string, string>,
): Promise<Lavapipe> {
  const refused: string[] = [];
  for (const icdFile of icdFiles) {
    const env = environment(icdFile);
    const adapter = await openAdapterIn(env);
    if (adapter.found && /llvmpipe/i.test(adapter.description))
      return { env, description: `lavapipe, ${adapter.description}` };
    refused.push(`${icdFile}: ${adapter.found ? `found ${adapter.description}` : adapter.reason}`);
  }
  const reason =
    refused.length === 0
      ? "lavapipe is not installed"
      : `Dawn does not accept the lavapipe of this machine (${refused.join("; ")})`;
  throw new SoftwareAdapterUnavailable(`${reason}. ${HOW_TO_GET_IT}`);
}

/** The descriptions of lavapipe in these folders, for this machine's architecture, in their order. */
export async function lavapipeFiles(folders: readonly string[] = SYSTEM_FOLDERS): Promise<string[]> {
  const found: string[] = [];
  for (const folder of folders.filter((path) => existsSync(path)))
    for (const name of (await readdir(folder)).sort())
      if (/^lvp_icd(\.x86_64)?\.json$/.test(name)) found.push(join(folder, name));
  return found;
}
