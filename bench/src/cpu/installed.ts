import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { peersFolder } from "./peer.js";

/** Returns the version of a package of the peers. Throws if it is not installed. */
export function installedVersion(packageName: string): string {
  const path = new URL(`node_modules/${packageName}/package.json`, peersFolder);
  return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

/** Installs the peers unless they are installed as bench/peers/package.json has them. Returns the error, if any. */
export function installPeers(): string | undefined {
  const { dependencies } = JSON.parse(readFileSync(new URL("package.json", peersFolder), "utf8")) as {
    dependencies: Readonly<Record<string, string>>;
  };
  const there = Object.entries(dependencies).every(
    ([name, version]) =>
      existsSync(new URL(`node_modules/${name}/package.json`, peersFolder)) &&
      installedVersion(name) === version,
  );
  if (there) return undefined;
  console.log("installing the libraries to compare with (half a gigabyte) into bench/peers");
  const { status, error } = spawnSync(
    "npx",
    ["-y", "pnpm@12", "install", "--frozen-lockfile", "--ignore-scripts"],
    { cwd: fileURLToPath(peersFolder), stdio: "inherit" },
  );
  return status === 0 ? undefined : `pnpm install ended with ${error?.message ?? `exit code ${status}`}`;
}
