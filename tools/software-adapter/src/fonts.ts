import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { unpackArchive } from "./archive.js";

/**
 * Names no fonts but those beside it. The system may have none, and Chromium ends when it has to draw text
 * without any; and with the system's own, text would have another width on each machine.
 * The paths stay right when the folder is renamed: that of the fonts is relative to this file, and that of
 * the cache, for which fontconfig knows no such thing, to `XDG_CACHE_HOME`.
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

/** Makes the fonts in `folder` the only ones of a process, and keeps what fontconfig writes there too. */
export function fontsEnvironment(folder: string): Record<string, string> {
  return { FONTCONFIG_FILE: join(folder, FILE), XDG_CACHE_HOME: folder };
}
