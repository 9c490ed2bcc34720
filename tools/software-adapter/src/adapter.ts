import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { unpackArchive, unpackExecutable } from "./archive.js";
import { cachedFolder } from "./cache.js";
import { SoftwareAdapterUnavailable, unavailableReason } from "./unavailable.js";

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
 * SwiftShader as the only Vulkan driver, with the loader that it needs. Both come from the npm package
 * `@sparticuz/chromium`, of which only the compressed files are used; none of its code runs.
 */
export async function softwareVulkan(): Promise<SoftwareVulkan> {
  const folder = await vulkanFolder();
  return {
    env: {
      LD_LIBRARY_PATH: libraryPath(folder),
      VK_ICD_FILENAMES: join(folder, "vk_swiftshader_icd.json"),
    },
    description: `SwiftShader from @sparticuz/chromium ${chromiumPackage().version}`,
  };
}

/** A headless Chromium whose WebGPU adapter is SwiftShader. It needs nothing but a C library. */
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
  return {
    executablePath: join(browser, "chromium"),
    args: [
      "--no-sandbox",
      "--enable-unsafe-webgpu",
      "--enable-features=Vulkan",
      "--use-vulkan=swiftshader",
      "--use-webgpu-adapter=swiftshader",
    ],
    env: { LD_LIBRARY_PATH: libraryPath(join(libraries, "lib"), vulkan) },
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
