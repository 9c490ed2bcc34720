import { parseArgs } from "node:util";
import { BackendError, type DType, dtypes, type OperationName, operationNames } from "@backplane/core";
import type { Grade, Replay } from "../law.js";
import { grades, type Mode, modes, planOf, type SuiteOptions } from "../options.js";

/** A command line that cannot be carried out. The message says why, and what is allowed. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "UsageError";
  }
}

/** The request of a command line. */
export interface Request {
  readonly action: "run" | "list" | "help" | "version";
  /** Path or name of the module with the backend; undefined only if none is needed. */
  readonly module: string | undefined;
  /** Name of the export to take. */
  readonly exportName: string | undefined;
  /** Names of the configurations to take; undefined: all. */
  readonly configurations: readonly string[] | undefined;
  readonly options: SuiteOptions;
  readonly files: { readonly json?: string; readonly markdown?: string; readonly html?: string };
  /** Path of an earlier report to compare with. */
  readonly earlier: string | undefined;
}

export const usage: string = `Usage: backplane-conformance MODULE [options]
       backplane-conformance replay FILE MODULE [options]   (replay --help)

Runs the laws of a compute backend against the backend in MODULE (a path, or the
name of a package), whose default export is one of

  { name, create }      such as a BackendProvider
  create                a function that makes a backend or a { name, create }, or a
                        promise of one
  [{ name, create }]    configurations, each of which is tested

where create() gives a new backend before init(), independent of all others. With
loseDevice(backend) beside create, which makes an initialised backend lose its
device, the laws on that are tried too.

What is tried
  --ops LIST            only laws on these operations: ${operationNames.join(", ")}
  --dtype LIST          only laws on these element types: ${dtypes.join(", ")}
  --law TEXT            only laws whose name contains TEXT; --list shows the names
  --mode MODE           quick: few cases per law; default; soak: one seed after the
                        other until the time budget is used up
  --runs N              random cases per law (default 20; in quick mode 3)
  --seed N              where the random search starts (default 1)
  --grade GRADE         must: the bounds that hold for all; tight: those of correct
                        rounding too, which otherwise bind those who declare it
  --time-budget TIME    begin nothing after so long: 90 or 90s, 10m, 1h (default in
                        soak mode: 10m); what is not reached is said, not passed
  --patience TIME       how long a promise may stay open before it counts as one that
                        never settles (default 5m): against hangs only
  --replay JSON         only the case of an earlier failure, as printed with it
  --export NAME         take this export of MODULE in place of the default one
  --config LIST         only the configurations with these names

What is written
  --json FILE           the report as data
  --md FILE             the report as Markdown
  --html FILE           the report as one page that needs nothing else
  --diff FILE           compare with an earlier report, as --json has written it
                        (of several configurations, each has files of its own:
                        report.json becomes report.NAME.json)

Other
  --list                print the laws that would run, without running them
  --help, --version

Ends with 0 where all laws are kept, 1 where some are broken, 2 for a bad command
line, 3 where the backend could not be opened, 4 where no law is broken but some
were not finished in time, 130 after Ctrl-C, and 141 where nobody reads on.
`;

const flags = {
  ops: { type: "string", multiple: true },
  dtype: { type: "string", multiple: true },
  law: { type: "string" },
  seed: { type: "string" },
  replay: { type: "string" },
  runs: { type: "string" },
  mode: { type: "string" },
  "time-budget": { type: "string" },
  patience: { type: "string" },
  grade: { type: "string" },
  json: { type: "string" },
  md: { type: "string" },
  html: { type: "string" },
  diff: { type: "string" },
  export: { type: "string" },
  config: { type: "string", multiple: true },
  list: { type: "boolean" },
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "v" },
} as const;

/** Throws a `UsageError` for anything that is not understood. */
export function parseArguments(args: readonly string[]): Request {
  const { values, positionals } = parsed(args);
  const listed = <Name extends string>(given: readonly string[] | undefined) =>
    given?.flatMap((text) => text.split(",").map((name) => name.trim() as Name));
  let action: Request["action"] = "run";
  if (values.list) action = "list";
  if (values.version) action = "version";
  if (values.help) action = "help";
  const options: Record<keyof SuiteOptions, unknown> | object = dropUndefined({
    operations: listed<OperationName>(values.ops),
    dtypes: listed<DType>(values.dtype),
    law: values.law,
    mode: values.mode as Mode | undefined,
    grade: values.grade as Grade | undefined,
    seed: number("seed", values.seed),
    runs: number("runs", values.runs),
    timeBudget: milliseconds("time-budget", values["time-budget"]),
    patience: milliseconds("patience", values.patience),
    replay: replay(values.replay),
  });
  const { ops, dtype, law, seed } = values;
  if (values.replay !== undefined && [ops, dtype, law, seed].some((value) => value !== undefined))
    throw new UsageError(
      "--replay says which law and seed; --ops, --dtype, --law and --seed do not go with it",
    );
  const [module, ...more] = positionals;
  if (more.length > 0) throw new UsageError(`one module at a time: ${positionals.join(" ")}`);
  if (module === undefined && action === "run") throw new UsageError("which module has the backend?");
  checked(options);
  return {
    ...{ action, module, exportName: values.export, configurations: listed(values.config), options },
    files: dropUndefined({ json: values.json, markdown: values.md, html: values.html }),
    earlier: values.diff,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: flags, allowPositionals: true });
  } catch (error) {
    // The message names the option; all that may be said of "--" is of no use here.
    throw new UsageError((error as Error).message.split(". ")[0]!);
  }
}

const optionNames: Readonly<Record<string, string>> = {
  ...{ operations: "--ops", dtypes: "--dtype", law: "--law", mode: `--mode (${modes.join(", ")})` },
  ...{ grade: `--grade (${grades.join(", ")})`, seed: "--seed", runs: "--runs", replay: "--replay" },
  ...{ timeBudget: "--time-budget", patience: "--patience", laws: "--ops, --dtype and --law" },
};

/** Lets the suite check its options before anything is loaded or written. */
function checked(options: SuiteOptions): void {
  try {
    planOf(options);
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    const name = optionNames[error.argument ?? ""] ?? "options";
    throw new UsageError(error.message.replace(`options.${error.argument}`, name));
  }
}

function number(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^-?\d+$/.test(text))
    throw new UsageError(`--${name} is ${JSON.stringify(text)}; allowed: whole numbers`);
  return Number(text);
}

const unitMilliseconds: Readonly<Record<string, number>> = {
  "": 1000,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

function milliseconds(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|)$/.exec(text) ?? [];
  if (amount === undefined)
    throw new UsageError(`--${name} is ${JSON.stringify(text)}; allowed: 90, 90s, 1.5m, 2h and the like`);
  return Number(amount) * unitMilliseconds[unit!]!;
}

function replay(text: string | undefined): Replay | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Replay;
  } catch {
    // Said below.
  }
  throw new UsageError(
    `--replay is ${JSON.stringify(text)}; allowed: the JSON that a failure ends with, in single quotes`,
  );
}

function dropUndefined<Fields extends object>(
  fields: Fields,
): { [Key in keyof Fields]?: Exclude<Fields[Key], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Key in keyof Fields]?: Exclude<Fields[Key], undefined> };
}
