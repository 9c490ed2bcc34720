import { randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { BackendError } from "@backplane/core";
import { allKernels } from "./kernels/all.js";
import { checkedTuning } from "./tuning/check.js";
import { mergeTuning, type TuningData } from "./tuning/data.js";
import { TunableShapes } from "./tuning/shapes.js";

const shapes = new TunableShapes(allKernels);

/**
 * Returns the tuning that `saveTuning` wrote, for the option `tuning`; an empty list if there is no such file.
 * Rejects with `INVALID_ARGUMENT` if the file holds something else, and with the system's error if it cannot be read.
 */
export async function loadTuning(path: string): Promise<readonly TuningData[]> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return [];
    throw error;
  }
  return checkedTuning(parsed(text, path), "loadTuning", path, shapes);
}

/**
 * Adds tuning to a file. Keeps its tuning for other adapters, tiers and versions, and for the same one all
 * shapes that are not in `tuning`. Replaces the file in one step, so that readers find either the old
 * contents or the new. If two programs save at the same time, the later one may undo the other's change.
 */
export async function saveTuning(path: string, tuning: TuningData | readonly TuningData[]): Promise<void> {
  const added = checkedTuning(tuning, "saveTuning", "tuning", shapes);
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
