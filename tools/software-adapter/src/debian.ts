import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { SoftwareAdapterUnavailable } from "./unavailable.js";

const ARCHIVE = "http://deb.debian.org/debian";
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
const PACKAGE = "mesa-vulkan-drivers";
/** Of an unpacked driver, relative to its folder. Some packages of Debian 12 still use the second one. */
export const LIBRARIES: readonly string[] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
export const ICD_FILE = "lavapipe_icd.json";

const run = promisify(execFile);

/**
 * Unpacks Debian's current Mesa, and the libraries that it needs and this machine lacks, into `folder`.
 * Nothing is installed and no root is needed: apt works on lists of its own in that folder, so that its
 * resolver, its retries and its check of signatures and checksums are used, and the system is only read.
 */
export async function unpackDebianMesa(folder: string): Promise<void> {
  const suites = debianSuites(readFileSync("/etc/os-release", "utf8"));
  if (!existsSync(KEYRING))
    throw new SoftwareAdapterUnavailable(`${KEYRING} is missing, so nothing can be verified`);
  const apt = join(folder, "apt");
  const sources = join(apt, "sources.list");
  const archives = join(apt, "cache", "archives");
  await mkdir(join(apt, "lists", "partial"), { recursive: true });
  await mkdir(join(archives, "partial"), { recursive: true });
  await writeFile(
    sources,
    suites.map((suite) => `deb [signed-by=${KEYRING}] ${ARCHIVE} ${suite} main\n`).join(""),
  );
  const options = {
    "Dir::Etc::SourceList": sources,
    "Dir::Etc::SourceParts": "-",
    "Dir::State::Lists": join(apt, "lists"),
    "Dir::Cache": join(apt, "cache"),
    "Debug::NoLocking": "1",
    // As root, apt would download as a user who may not write here.
    "APT::Sandbox::User": "",
    "Acquire::Languages": "none",
    "Acquire::Retries": "3",
  };
  const settings = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  await run("apt-get", [...settings, "--error-on=any", "update"]);
  const wanted = ["--download-only", "--yes", "--no-install-recommends", "--reinstall"];
  await run("apt-get", [...settings, "install", ...wanted, "--target-release", suites.at(-1)!, PACKAGE]);
  for (const name of await readdir(archives))
    if (name.endsWith(".deb")) await run("dpkg-deb", ["--extract", join(archives, name), folder]);
  await rm(apt, { recursive: true });
  // The path is relative to this file, and so stays right when the folder is renamed.
  const description = {
    file_format_version: "1.0.0",
    ICD: { library_path: `./${LIBRARIES[0]}/libvulkan_lvp.so`, api_version: "1.3.0" },
  };
  await writeFile(join(folder, ICD_FILE), JSON.stringify(description));
}

/**
 * Where a Mesa that Dawn accepts is, for the Debian that `osRelease` (/etc/os-release) describes: in
 * Debian 12 only among the backports, later in the release itself.
 */
export function debianSuites(osRelease: string): string[] {
  const field = (name: string) => new RegExp(`^${name}="?([^"\n]*)"?$`, "m").exec(osRelease)?.[1];
  const name = field("VERSION_CODENAME");
  const version = Number(field("VERSION_ID"));
  if (field("ID") !== "debian" || name === undefined || !(version >= 12))
    throw new SoftwareAdapterUnavailable(
      `lavapipe is fetched from Debian 12 or newer, for which it is built; this is ${field("PRETTY_NAME")}`,
    );
  return version === 12 ? [name, `${name}-backports`] : [name];
}
