import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { SuiteResult } from "./suite/result.js";

/** The document with the specs that fail: the one place where they are listed. */
const document = new URL("../../../docs/tfjs-suite.md", import.meta.url);

/** The specs that are listed as failing on one of the backends. Each line of the table has a name, backends and a reason. */
function listed(backends: readonly string[]): string[] {
  const rows = readFileSync(document, "utf8").matchAll(
    /^\| `(?<name>[^`]+)` \| (?<backends>[^|]+) \| [^|]+ \|$/gm,
  );
  return [...rows]
    .filter(({ groups }) => groups!.backends!.split(",").some((name) => backends.includes(name.trim())))
    .map(({ groups }) => groups!.name!);
}

/** The names of specs without that of the environment, which stands after the name of their suite. */
function bare(name: string, backend: string): string {
  return name.replace(` backplane-${backend} {}`, "");
}

const packageFolder = fileURLToPath(new URL("..", import.meta.url));

/**
 * Runs the suite of tfjs-core in a process of its own. Just the listed specs may fail, and there must be as many.
 * `hostElements`: as the option of `register`.
 */
export async function checkSuite(backend: string, leastPassed: number, hostElements = 0): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-tfjs-"));
  try {
    const file = join(folder, "result.json");
    const program = fileURLToPath(new URL("./suite/main.js", import.meta.url));
    const options = ["--host-elements", String(hostElements)];
    await promisify(execFile)(process.execPath, [program, backend, file, ...options], {
      cwd: packageFolder,
      maxBuffer: 2 ** 26,
    });
    const result = JSON.parse(readFileSync(file, "utf8")) as SuiteResult;
    const failed = result.specs.filter(({ status }) => status === "failed");
    const { backends } = result;
    const names = hostElements > 0 ? backends : [...backends, ...backends.map((name) => `${name} alone`)];
    const messages = failed.map(({ name, message }) => `${bare(name, backend)}: ${message?.slice(0, 200)}`);
    assert.deepEqual(
      failed.map(({ name }) => bare(name, backend)).sort(),
      listed(names).sort(),
      `the specs that fail are not those of docs/tfjs-suite.md:\n${messages.join("\n")}`,
    );
    assert.deepEqual(result.suiteFailures, []);
    assert.ok(
      result.passed >= leastPassed,
      `${result.passed} specs passed; expected: at least ${leastPassed}`,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
