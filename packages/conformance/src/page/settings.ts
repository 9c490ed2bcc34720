import { type DType, dtypes, type OperationName, operationNames } from "@backplane/core";
import type { Grade, Replay } from "../law.js";
import { grades, type Mode, modes, type SuiteOptions } from "../options.js";

export type Source = "address" | "file" | "reference" | "mutant";

/** The contents of the form and of the page's address, as text. The names are those in the address. */
export interface Settings {
  readonly source: Source;
  /** Address of the backend's module. */
  readonly backend: string;
  /** Which export of the module to take; empty: the default one. */
  readonly export: string;
  /** Names of the configurations to take, separated by commas; empty: all that the module has. */
  readonly config: string;
  /** Name of a mutant. */
  readonly mutant: string;
  readonly mode: string;
  readonly seed: string;
  readonly ops: readonly string[];
  readonly dtype: readonly string[];
  readonly grade: string;
  readonly runs: string;
  readonly "time-budget": string;
  readonly law: string;
  readonly replay: string;
}

export const defaultSettings: Settings = {
  ...{
    source: "address",
    backend: "",
    export: "",
    config: "",
    mutant: "",
    mode: "quick",
    seed: "1",
    ops: [],
    dtype: [],
  },
  ...{ grade: "must", runs: "", "time-budget": "", law: "", replay: "" },
};

/** The settings that hold one text each, besides the source and the backend. */
export const texts = [
  "export",
  "config",
  "mutant",
  "mode",
  "seed",
  "grade",
  "runs",
  "time-budget",
  "law",
  "replay",
] as const;
export const lists = ["ops", "dtype"] as const;

/**
 * Returns the settings in an address, such as `?backend=/dist/my-backend.js&mode=quick&ops=gemm,reduce`.
 * `?backend=reference` and `?mutant=NAME` select backends that come with the suite.
 */
export function settingsFrom(parameters: URLSearchParams): Settings {
  const backend = parameters.get("backend") ?? "";
  const source = backend === "reference" ? "reference" : parameters.has("mutant") ? "mutant" : "address";
  const found: Record<string, unknown> = { source, backend: source === "address" ? backend : "" };
  for (const name of texts) found[name] = parameters.get(name) ?? defaultSettings[name];
  for (const name of lists) {
    const list = parameters.get(name) ?? "";
    found[name] = list.split(",").flatMap((entry) => entry.trim() || []);
  }
  return found as unknown as Settings;
}

/** The inverse of `settingsFrom`. Leaves out defaults. A file cannot be named in an address. */
export function parametersFor(settings: Settings): URLSearchParams {
  const { source, backend } = settings;
  const parameters = new URLSearchParams();
  if (source === "reference") parameters.set("backend", "reference");
  if (source === "address" && backend !== "") parameters.set("backend", backend);
  for (const name of texts)
    if (settings[name] !== defaultSettings[name] && (name !== "mutant" || source === "mutant"))
      parameters.set(name, settings[name]);
  for (const name of lists) if (settings[name].length > 0) parameters.set(name, settings[name].join(","));
  return parameters;
}

/** Returns options for the suite, which checks numbers and names. Throws if the replay line is not JSON. */
export function optionsFrom(settings: Settings): SuiteOptions {
  const { mode, seed, ops, dtype, grade, runs, law, replay } = settings;
  const budget = settings["time-budget"];
  return {
    mode: mode as Mode,
    seed: numberFrom(seed),
    grade: grade as Grade,
    ...(ops.length === 0 ? {} : { operations: ops as readonly OperationName[] }),
    ...(dtype.length === 0 ? {} : { dtypes: dtype as readonly DType[] }),
    ...(runs === "" ? {} : { runs: numberFrom(runs) }),
    ...(budget === "" ? {} : { timeBudget: 1000 * numberFrom(budget) }),
    ...(law === "" ? {} : { law }),
    ...(replay === "" ? {} : { replay: replayFrom(replay) }),
  };
}

/** The choices that the form offers. */
export const choices: {
  readonly mode: readonly string[];
  readonly grade: readonly string[];
  readonly ops: readonly string[];
  readonly dtype: readonly string[];
} = { mode: modes, grade: grades, ops: operationNames, dtype: dtypes };

function numberFrom(text: string): number {
  return text.trim() === "" ? Number.NaN : Number(text);
}

/** Takes the line with its `replay: ` in front too, as failures print it. */
function replayFrom(line: string): Replay {
  try {
    return JSON.parse(line.replace(/^\s*replay:/, "")) as Replay;
  } catch (error) {
    throw new Error(`The replay line is no JSON: ${(error as Error).message}`);
  }
}
