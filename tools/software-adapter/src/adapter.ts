import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { cachedFolder, cachePath, LIBRARIES } from "@backplane/debian";
import { unpackArchive, unpackExecutable } from "./archive.js";
import { ICD_FILE, unpackDebianMesa } from "./debian.js";
import { fontsEnvironment, unpackFonts } from "./fonts.js";
import { acceptedLavapipe, lavapipeFiles } from "./lavapipe.js";
import { SoftwareAdapterUnavailable, unavailableReason } from "./unavailable.js";

export type SoftwareAdapter = "swiftshader" | "lavapipe";

export interface SoftwareVulkan {
  /** Must be in the environment of the process before it starts: the loader reads it once. */
  readonly env: Record<string, string>;
  readonly description: string;
}

export interface HeadlessChromium {
  readonly executablePath: string;
  readonly args: readonly string[];
  readonly env: Record<string, string>;
}

/**
 * Returns the environment for SwiftShader as the only Vulkan driver, with the loader that it needs. Both come
 * from the npm package `@sparticuz/chromium`, of which only the compressed files are used; none of its code
 * runs.
 *
 * The other adapter is lavapipe: from the cache, if `fetchLavapipe` has filled it, otherwise from the system.
 * Throws `SoftwareAdapterUnavailable` if there is none that Dawn accepts.
 */
export async function softwareVulkan(adapter: SoftwareAdapter = "swiftshader"): Promise<SoftwareVulkan> {
  const folder = await vulkanFolder();
  if (adapter === "lavapipe") {
    const fetched = join(cachePath(LAVAPIPE), ICD_FILE);
    const files = [...(existsSync(fetched) ? [fetched] : []), ...(await lavapipeFiles())];
    return acceptedLavapipe(files, (file) => lavapipeEnvironment(file, folder));
  }
  return {
    env: {
      LD_LIBRARY_PATH: libraryPath(folder),
      VK_ICD_FILENAMES: join(folder, "vk_swiftshader_icd.json"),
    },
    description: `SwiftShader from @sparticuz/chromium ${chromiumPackage().version}`,
  };
}

/** Fills the cache with lavapipe from Debian's archive, unless it is there. */
export async function fetchLavapipe(): Promise<SoftwareVulkan> {
  const loader = await vulkanFolder();
  await cachedFolder(LAVAPIPE, async (folder) => {
    await unpackDebianMesa(folder);
    // Keep it only if Dawn accepts it.
    await acceptedLavapipe([join(folder, ICD_FILE)], (file) => lavapipeEnvironment(file, loader));
  });
  return softwareVulkan("lavapipe");
}

/** A headless Chromium whose WebGPU adapter is SwiftShader, with fonts. It needs only a C library. */
export async function headlessChromium(): Promise<HeadlessChromium> {
  const vulkan = await vulkanFolder();
  const { folder: source } = chromiumPackage();
  const libraries = await versionedFolder("libraries", (folder) =>
    unpackArchive(join(source, "bin", "al2023.tar.br"), folder),
  );
  const browser = await versionedFolder("chromium", async (folder) => {
    await unpackExecutable(join(source, "bin", "chromium.br"), join(folder, "chromium"));
    // Chromium loads its own copies of these from the folder of its executable.
    await unpackArchive(join(source, "bin", "swiftshader.tar.br"), folder);
  });
  const fonts = await versionedFolder("fonts", (folder) =>
    unpackFonts(join(source, "bin", "fonts.tar.br"), folder),
  );
  return {
    executablePath: join(browser, "chromium"),
    args: [
      "--no-sandbox",
      "--enable-unsafe-webgpu",
      "--enable-features=Vulkan",
      "--use-vulkan=swiftshader",
      "--use-webgpu-adapter=swiftshader",
      // SwiftShader compiles kernels with workgroup memory much faster when Dawn writes the zeros itself.
      "--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension",
    ],
    env: { LD_LIBRARY_PATH: libraryPath(join(libraries, "lib"), vulkan), ...fontsEnvironment(fonts) },
  };
}

const LAVAPIPE = "lavapipe";

/** @param loader The folder of the Vulkan loader that SwiftShader brings; a system may have none. */
function lavapipeEnvironment(icdFile: string, loader: string): Record<string, string> {
  // Only a fetched driver has libraries beside its description.
  const libraries = LIBRARIES.map((path) => join(dirname(icdFile), path)).filter((path) => existsSync(path));
  return {
    LD_LIBRARY_PATH: libraryPath(...libraries, loader),
    VK_ICD_FILENAMES: icdFile,
    // LLVM compiles slowly: processes share their compiled shaders.
    MESA_SHADER_CACHE_DIR: cachePath("lavapipe-shaders"),
  };
}

async function vulkanFolder(): Promise<string> {
  const reason = unavailableReason();
  if (reason !== undefined) throw new SoftwareAdapterUnavailable(reason);
  const { folder: source } = chromiumPackage();
  return versionedFolder("vulkan", (folder) =>
    unpackArchive(join(source, "bin", "swiftshader.tar.br"), folder),
  );
}

function versionedFolder(name: string, fill: (folder: string) => Promise<void>): Promise<string> {
  return cachedFolder(`${name}-${chromiumPackage().version}`, fill);
}

function chromiumPackage(): { folder: string; version: string } {
  // Its exports map hides package.json, so the folder is found from its entry, build/index.js.
  const folder = fileURLToPath(new URL("..", import.meta.resolve("@sparticuz/chromium")));
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string };
  return { folder, version };
}

function libraryPath(...folders: string[]): string {
  const inherited = process.env.LD_LIBRARY_PATH;
  return [...folders, ...(inherited ? [inherited] : [])].join(":");
}
