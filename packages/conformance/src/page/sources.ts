import { mutants } from "../mutants/index.js";
import { createReferenceBackend, loseReferenceDevice } from "../reference.js";
import { type Subject, subjectsIn } from "../subjects.js";
import type { Settings } from "./settings.js";

/**
 * Returns the backends that the settings name. Throws, with the names that there are, if there is none of this name.
 */
export async function subjectsFor(settings: Settings, file: File | undefined): Promise<readonly Subject[]> {
  const { source, backend, mutant } = settings;
  if (source === "reference")
    return [{ name: "the reference", create: createReferenceBackend, loseDevice: loseReferenceDevice }];
  if (source === "mutant") {
    const found = mutants.find(({ name }) => name === mutant);
    if (found === undefined) throw new Error(`There is no mutant named “${mutant}”.`);
    const subject = {
      name: `the mutant “${found.name}”`,
      create: found.create,
      loseDevice: loseReferenceDevice,
    };
    return [found.hangs ? { ...subject, options: { patience: 20_000 } } : subject];
  }
  if (source === "file") {
    if (file === undefined) throw new Error("No file has been chosen.");
    const address = URL.createObjectURL(file);
    try {
      return chosen(await import(address), file.name, settings);
    } finally {
      URL.revokeObjectURL(address);
    }
  }
  if (backend === "") throw new Error("The address of the backend’s module is missing.");
  return chosen(await import(addressOf(backend).href), backend, settings);
}

/** Imports would be resolved against this module, not against the page. */
export function addressOf(backend: string): URL {
  return new URL(backend, document.baseURI);
}

/** The same choice that the command line makes with `--export` and `--config`. */
function chosen(
  exported: Readonly<Record<string, unknown>>,
  module: string,
  settings: Pick<Settings, "export" | "config">,
): readonly Subject[] {
  const subjects = subjectsIn(exported, module, settings.export || undefined);
  if (settings.config === "") return subjects;
  return settings.config.split(",").map((text) => {
    const found = subjects.find(({ name }) => name === text.trim());
    if (found !== undefined) return found;
    const names = subjects.map(({ name }) => name).join(", ");
    throw new Error(`${module} has no configuration “${text.trim()}”; it has ${names}.`);
  });
}
