import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Subject, subjectsIn } from "../subjects.js";
import { UsageError } from "./arguments.js";

/** Thrown if the module itself fails while it is loaded. */
export class LoadError extends Error {
  constructor(module: string, cause: unknown) {
    super(`${module} could not be loaded`, { cause });
    this.name = "LoadError";
  }
}

/** Returns the backends in a module as subjects to test. Throws a `UsageError` if it has none. */
export async function loadSubjects(
  module: string,
  exportName: string | undefined,
  names: readonly string[] | undefined,
): Promise<readonly Subject[]> {
  const url = resolved(module);
  let loaded: Readonly<Record<string, unknown>>;
  try {
    loaded = await import(url);
  } catch (error) {
    throw new LoadError(module, error);
  }
  const subjects = found(loaded, module, exportName);
  if (names === undefined) return subjects;
  const unknown = names.find((name) => !subjects.some((subject) => subject.name === name));
  if (unknown !== undefined) {
    const known = subjects.map(({ name }) => name).join(", ");
    throw new UsageError(`--config is ${JSON.stringify(unknown)}; ${module} has ${known}`);
  }
  return subjects.filter(({ name }) => names.includes(name));
}

function found(loaded: Readonly<Record<string, unknown>>, module: string, exportName: string | undefined) {
  try {
    return subjectsIn(loaded, module, exportName);
  } catch (error) {
    throw new UsageError(`${(error as Error).message} (--export takes another)`);
  }
}

/** A path means a file here; anything else a package as this folder sees it. */
function resolved(module: string): string {
  const path = resolve(module);
  const exists = existsSync(path);
  if (exists && statSync(path).isFile()) return pathToFileURL(path).href;
  if (/^\.{0,2}[/\\]/.test(module) || /\.[cm]?[jt]s$/.test(module))
    throw new UsageError(
      exists
        ? `${JSON.stringify(module)} is a folder; name a file`
        : `there is no file ${JSON.stringify(module)}`,
    );
  try {
    return pathToFileURL(createRequire(join(process.cwd(), "index.js")).resolve(module)).href;
  } catch {
    throw new UsageError(`there is no file and no package ${JSON.stringify(module)} here`);
  }
}
