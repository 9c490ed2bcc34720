import { parseArgs } from "node:util";

export interface Options {
  readonly only: "node" | "browser" | undefined;
  readonly grep: string | undefined;
  /** "system" tests on the machine's own GPU, and in the Chrome installed on it. */
  readonly adapter: "software" | "system" | undefined;
}

export const USAGE = `usage: pnpm test [--only node|browser] [--grep TEXT] [--adapter software|system]`;

export class UsageError extends Error {}

/** Reads the command line. pnpm passes a leading "--" on, so one is ignored. */
export function parseOptions(args: readonly string[]): Options {
  const rest = args[0] === "--" ? args.slice(1) : [...args];
  try {
    const { values } = parseArgs({
      args: rest,
      options: { only: { type: "string" }, grep: { type: "string" }, adapter: { type: "string" } },
    });
    return {
      only: oneOf("only", values.only, ["node", "browser"]),
      grep: values.grep,
      adapter: oneOf("adapter", values.adapter, ["software", "system"]),
    };
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n${USAGE}`);
  }
}

function oneOf<Choice extends string>(
  name: string,
  value: string | undefined,
  choices: readonly Choice[],
): Choice | undefined {
  if (value === undefined || choices.includes(value as Choice)) return value as Choice | undefined;
  throw new Error(`--${name} is ${choices.join(" or ")}, not "${value}"`);
}
