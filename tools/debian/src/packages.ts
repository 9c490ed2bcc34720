import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const ARCHIVE = "http://deb.debian.org/debian";
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

const TRIPLETS: Readonly<Record<string, string>> = { x64: "x86_64-linux-gnu", arm64: "aarch64-linux-gnu" };
const triplet = TRIPLETS[process.arch] ?? process.arch;
/** Of an unpacked package, relative to its folder. Some packages of Debian 12 still use the second one. */
export const LIBRARIES: readonly string[] = [`usr/lib/${triplet}`, `lib/${triplet}`];

const run = promisify(execFile);

/** Thrown if a package is not available; `reason` says why. */
export class DebianUnavailable extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`Not to be had from Debian's archive: ${reason}`);
    this.name = "DebianUnavailable";
    this.reason = reason;
  }
}

export interface DebianPackage {
  readonly name: string;
  /** Debian 12 has the version that is wanted only among its backports. */
  readonly backported: boolean;
}

/**
 * Unpacks the current version of a package, and the libraries that it needs and this machine lacks, into
 * `folder`. Nothing is installed and no root is needed. apt works on lists of its own in that folder, so that
 * its resolver, its retries and its checks of signatures and checksums are used, and the system is only read.
 */
export async function unpackDebianPackage(folder: string, wanted: DebianPackage): Promise<void> {
  const release = existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
  const suites = debianSuites(release, wanted);
  if (!existsSync(KEYRING)) throw new DebianUnavailable(`${KEYRING} is missing, so nothing can be verified`);
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
  const how = ["--download-only", "--yes", "--no-install-recommends", "--reinstall"];
  await run("apt-get", [...settings, "install", ...how, "--target-release", suites.at(-1)!, wanted.name]);
  for (const name of await readdir(archives))
    if (name.endsWith(".deb")) await run("dpkg-deb", ["--extract", join(archives, name), folder]);
  await rm(apt, { recursive: true });
}

/** Returns the place of a package, for the Debian that `osRelease` (/etc/os-release) describes. */
export function debianSuites(osRelease: string, { name: wanted, backported }: DebianPackage): string[] {
  const field = (name: string) => new RegExp(`^${name}="?([^"\n]*)"?$`, "m").exec(osRelease)?.[1];
  const name = field("VERSION_CODENAME");
  const version = Number(field("VERSION_ID"));
  if (field("ID") !== "debian" || name === undefined || !(version >= 12))
    throw new DebianUnavailable(
      `${wanted} is fetched from Debian 12 or newer, for which it is built; this is ${field("PRETTY_NAME") ?? process.platform}`,
    );
  return version === 12 && backported ? [name, `${name}-backports`] : [name];
}
