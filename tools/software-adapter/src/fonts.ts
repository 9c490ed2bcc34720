import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { unpackArchive } from "./archive.js";

/**
 * Names only the fonts beside it. The system may have none, and Chromium ends if it has to draw text without
 * any; with the system's own fonts, text would have another width on each machine. The paths stay right if
 * the folder is renamed: the path of the fonts is relative to this file, and that of the cache, which
 * fontconfig cannot resolve like that, to `XDG_CACHE_HOME`.
 */
const CONFIGURATION = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">cache</cachedir>
</fontconfig>
`;
const FILE = "fonts.conf";

/**
 * Unpacks the fonts that `@sparticuz/chromium` brings (Open Sans) from `archive` into `folder`. Their own
 * configuration for fontconfig names folders of another system, and is overwritten.
 */
export async function unpackFonts(archive: string, folder: string): Promise<void> {
  await unpackArchive(archive, folder);
  await writeFile(join(folder, FILE), CONFIGURATION);
}

/** Makes the fonts in `folder` the only ones of a process, and keeps fontconfig's cache there too. */
export function fontsEnvironment(folder: string): Record<string, string> {
  return { FONTCONFIG_FILE: join(folder, FILE), XDG_CACHE_HOME: folder };
}
