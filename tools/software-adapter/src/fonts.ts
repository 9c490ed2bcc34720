import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { unpackArchive } from "./archive.js";

/**
 * The only fonts are those beside this file: a system may have none, without which Chromium ends when it
 * has to draw text, and with those of the system text would have another width on each machine.
 * Paths are relative, and so stay right when the folder is renamed; of a cache's path, only its start in
 * `XDG_CACHE_HOME` can be left open.
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
 * Unpacks the fonts that `@sparticuz/chromium` brings (Open Sans) into `folder`, with a configuration for
 * fontconfig. The one among them names folders that only its usual host has, and is overwritten.
 */
export async function unpackFonts(source: string, folder: string): Promise<void> {
  await unpackArchive(source, folder);
  await writeFile(join(folder, FILE), CONFIGURATION);
}

/** Makes the fonts in `folder` the only ones of a process, and keeps what fontconfig writes there too. */
export function fontsEnvironment(folder: string): Record<string, string> {
  return { FONTCONFIG_FILE: join(folder, FILE), XDG_CACHE_HOME: folder };
}
