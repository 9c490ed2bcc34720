import { type ParseArgsConfig, parseArgs } from "node:util";

/** A command line that makes no sense; the message is for the person who typed it. */
export class UsageError extends Error {}

type Declared = NonNullable<ParseArgsConfig["options"]>;

/** The options that a command line has. Throws a `UsageError` for others. */
export function valuesFrom<const Options extends Declared>(
  args: readonly string[],
  options: Options,
): ReturnType<typeof parseArgs<{ options: Options }>>["values"] {
  try {
    // "pnpm story -- --help" hands on the separator too.
    return parseArgs({ args: args[0] === "--" ? args.slice(1) : [...args], options }).values;
  } catch (error) {
    // The first sentence says what is wrong; the rest is advice on options that take file names.
    throw new UsageError((error as Error).message.split(". ")[0]!);
  }
}

export function oneOf<Value extends string>(name: string, value: string, allowed: readonly Value[]): Value {
  if (!allowed.includes(value as Value))
    throw new UsageError(`--${name} is "${value}"; allowed: ${allowed.join(", ")}`);
  return value as Value;
}

export function wholeNumber(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most)
    throw new UsageError(`--${name} is "${text}"; allowed: whole numbers from ${least} to ${most}`);
  return value;
}

export function numberFrom(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || value < least || value > most)
    throw new UsageError(`--${name} is "${text}"; allowed: numbers from ${least} to ${most}`);
  return value;
}

/** A call of the program with the options that have a value, for people to copy to a shell. */
export function callWith(options: Readonly<Record<string, string | undefined>>): string {
  const words = Object.entries(options).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, quoted(value)],
  );
  return `npx -y pnpm@12 story ${words.join(" ")}`;
}

/** One word for a shell, with whatever is in it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
