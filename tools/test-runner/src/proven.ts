import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join, relative } from "node:path";
import { loadedFiles } from "./loaded-files.js";
import { type TestFile, workspaceRoot } from "./workspace.js";

/** For each environment, the digest of each file of tests that passed there. */
export type Record = Readonly<{ [environment: string]: Readonly<{ [file: string]: string }> }>;

const recordFile = join(workspaceRoot, "tools/test-runner/proven.json");

/** Relaxed SIMD, which processors carry out differently, is part of V8 from this version on. */
const RELAXED_SIMD = 11.4;

const thisProcessor = cpus()[0]?.model ?? "unknown processor";

/**
 * Returns the name of all that may decide an outcome besides the code. That of SwiftShader has the version of Chromium,
 * from which it is taken. Relaxed SIMD, and what LLVM compiles for lavapipe, depend on the processor.
 */
export function environmentOf(adapter: string, versions: NodeJS.ProcessVersions = process.versions): string {
  const { node, v8 } = versions;
  const isPortable = adapter.startsWith("SwiftShader") && Number.parseFloat(v8) < RELAXED_SIMD;
  const parts = [
    adapter,
    `Node.js ${node.split(".", 1)}`,
    `${process.platform} ${process.arch}`,
    ...(isPortable ? [] : [thisProcessor]),
  ];
  return parts.join(", ");
}

/**
 * The files of tests that have passed before, in the same environment and with the same code. What a `pure` file
 * gives follows from what it loads, so it need not run again until some of that has changed.
 */
export class Proven {
  readonly #environment: string;
  readonly #record: Record;
  readonly #digestOf: (file: string) => string;

  /** @param environment See `environmentOf`. */
  constructor(
    environment: string,
    record: Record,
    digestOf: (file: string) => string = (file) => digestOfFile(file),
  ) {
    this.#environment = environment;
    this.#record = record;
    // Code does not change while its tests run.
    const digests = new Map<string, string>();
    this.#digestOf = (file) => {
      const digest = digests.get(file) ?? digestOf(file);
      digests.set(file, digest);
      return digest;
    };
  }

  has(file: TestFile): boolean {
    const recorded = this.#record[this.#environment]?.[nameOf(file)];
    return recorded !== undefined && isPure(file) && recorded === this.#digestOf(pathOf(file));
  }

  /**
   * Returns the record with these files as they are now.
   *
   * @param files Those that there are; others are dropped.
   * @param passed Those that have just passed.
   */
  renewed(files: readonly TestFile[], passed: readonly TestFile[]): Record {
    const names = new Set(passed.map(nameOf));
    const entries = files
      .filter((file) => (names.has(nameOf(file)) ? isPure(file) : this.has(file)))
      .map((file) => [nameOf(file), this.#digestOf(pathOf(file))] as const);
    const sorted = entries.sort(([a], [b]) => (a < b ? -1 : 1));
    return { ...this.#record, [this.#environment]: Object.fromEntries(sorted) };
  }
}

function isPure({ tags }: TestFile): boolean {
  return tags.includes("pure");
}

/** The compiled form of an entry of the browser part is named by its place below the server of pages. */
function pathOf({ compiled }: TestFile): string {
  return compiled.startsWith(workspaceRoot) ? compiled : join(workspaceRoot, compiled);
}

function nameOf(file: TestFile): string {
  return relative(workspaceRoot, pathOf(file)).replaceAll("\\", "/");
}

/**
 * A digest of all that a compiled file of tests loads, and of the versions of what comes from npm. Chromium has relaxed
 * SIMD, so that of an entry of the browser part has the processor too.
 */
export function digestOfFile(compiled: string, processor: string = thisProcessor): string {
  const hash = createHash("sha256");
  if (compiled.includes("/dist-test/browser/")) hash.update(`${processor}\n`);
  for (const file of [...loadedFiles(compiled), join(workspaceRoot, "pnpm-lock.yaml")]) {
    const content = readFileSync(file);
    hash.update(`${relative(workspaceRoot, file)} ${content.length}\n`).update(content);
  }
  return hash.digest("hex").slice(0, 32);
}

export function readRecord(): Record {
  return existsSync(recordFile) ? (JSON.parse(readFileSync(recordFile, "utf8")) as Record) : {};
}

export function writeRecord(record: Record): void {
  writeFileSync(recordFile, `${JSON.stringify(record, null, 2)}\n`);
}
