import { randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { BackendError } from "@backplane/core";
import { checkedTuning, mergeTuning, type TuningData } from "./tuning/data.js";

/**
 * What `saveTuning` wrote, for the option `tuning`; nothing where there is no such file. Rejects with
 * `INVALID_ARGUMENT` where the file holds something else, and with what the system says of it.
 */
export async function loadTuning(path: string): Promise<readonly TuningData[]> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return [];
    throw error;
  }
  return checkedTuning(parsed(text, path), "loadTuning", path);
}

/**
 * Adds tuning to a file: what it holds of other adapters, tiers and versions stays, and of the same one
 * all shapes that are not in `tuning`. The file is replaced in one step, so that readers find the old
 * contents or the new. Of two programs that save at the same time, the later one may undo the other's.
 */
export async function saveTuning(path: string, tuning: TuningData | readonly TuningData[]): Promise<void> {
  const added = checkedTuning(tuning, "saveTuning", "tuning");
  const all = mergeTuning([...(await loadTuning(path)), ...added]);
  const draft = `${path}.${randomUUID()}`;
  try {
    await writeFile(draft, `${JSON.stringify(all, null, 1)}\n`);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

function parsed(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new BackendError(
      "INVALID_ARGUMENT",
      `loadTuning: ${path} is no JSON: ${String(cause)}; allowed: what saveTuning wrote`,
      { operation: "loadTuning", argument: "path", cause },
    );
  }
}
