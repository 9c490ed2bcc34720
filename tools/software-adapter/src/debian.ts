import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type DebianPackage, DebianUnavailable, LIBRARIES, unpackDebianPackage } from "@backplane/debian";
import { SoftwareAdapterUnavailable } from "./unavailable.js";

/** The Mesa of Debian 12 itself is too old for Dawn. */
const MESA: DebianPackage = { name: "mesa-vulkan-drivers", backported: true };
export const ICD_FILE = "lavapipe_icd.json";

/**
 * Unpacks Debian's current Mesa and the packages that it needs into `folder`, with a description for the
 * Vulkan loader.
 */
export async function unpackDebianMesa(folder: string): Promise<void> {
  try {
    await unpackDebianPackage(folder, MESA);
  } catch (error) {
    throw error instanceof DebianUnavailable ? new SoftwareAdapterUnavailable(error.reason) : error;
  }
  // The path is relative to this file, and so stays right when the folder is renamed.
  const description = {
    file_format_version: "1.0.0",
    ICD: { library_path: `./${LIBRARIES[0]}/libvulkan_lvp.so`, api_version: "1.3.0" },
  };
  await writeFile(join(folder, ICD_FILE), JSON.stringify(description));
}
