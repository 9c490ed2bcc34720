import { readFileSync } from "node:fs";
import { FileError } from "@backplane/example-digits/file-error.js";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";

/**
 * Returns what `read` makes of the command line. If it throws, or if help was asked for, this says so with the usage and
 * ends the program, with 2 or 0. From then on errors of the system are told as by `tellSystemErrors`.
 */
export function commandLine<Options extends { readonly help: boolean }>(
  usage: string,
  read: () => Options,
): Options {
  tellSystemErrors();
  let options: Options;
  try {
    options = read();
  } catch (error) {
    // The first sentence says what is wrong; the rest is advice on file names that begin with "-".
    process.stderr.write(`${(error as Error).message.split(". ")[0]}\n\n${usage}`);
    process.exit(2);
  }
  if (!options.help) return options;
  process.stdout.write(usage);
  process.exit(0);
}

/** Throws with what is allowed unless the text of an option is one of these. */
export function oneOf<Value extends string>(option: string, text: string, allowed: readonly Value[]): Value {
  if (!allowed.includes(text as Value))
    throw new Error(`--${option} is ${text}; allowed: ${allowed.join(", ")}`);
  return text as Value;
}

/** Throws with what is allowed unless the text of an option is a whole number from `least` on. */
export function wholeNumber(option: string, text: string, least: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least)
    throw new Error(`--${option} is ${text}; allowed: whole numbers from ${least} on`);
  return value;
}

/** Reads what a program of the benchmark has written, which has this field. Throws a `FileError` about anything else. */
export function readResults<Results extends object>(path: string, field: keyof Results & string): Results {
  let results: unknown;
  try {
    results = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new FileError(`${path}: ${(error as Error).message}`);
  }
  if (typeof results !== "object" || results === null || !(field in results))
    throw new FileError(`${path}: It has no ${field}, so it is no result of this benchmark.`);
  return results as Results;
}
