import { parseArgs } from "node:util";

export interface Options {
  readonly help: boolean;
  readonly only: "node" | "browser" | undefined;
  readonly grep: string | undefined;
  readonly adapter: "software" | "lavapipe" | "system" | undefined;
}

export const USAGE = `usage: pnpm test [-- [--only node|browser] [--grep PATTERN] [--adapter software|lavapipe|system]]

  --only node, --only browser  one of the two parts
  --grep PATTERN               tests whose full title matches this regular expression
  --adapter software           SwiftShader, from npm; what is tested on where nothing is asked for,
                               except on machines for which there is none
  --adapter lavapipe           Mesa's software Vulkan, for the Node.js part; it has to be there:
                               see tools/software-adapter/README.md
  --adapter system             the machine's own GPU, and the Chrome installed on it
  --help                       this text`;

export class UsageError extends Error {}

/** Reads the command line. pnpm passes a leading "--" on, so one is ignored. */
export function parseOptions(args: readonly string[]): Options {
  const rest = args[0] === "--" ? args.slice(1) : [...args];
  try {
    const { values } = parseArgs({
      args: rest,
      options: {
        help: { type: "boolean" },
        only: { type: "string" },
        grep: { type: "string" },
        adapter: { type: "string" },
      },
    });
    const only = oneOf("only", values.only, ["node", "browser"]);
    const adapter = oneOf("adapter", values.adapter, ["software", "lavapipe", "system"]);
    if (adapter === "lavapipe" && only !== "node")
      throw new Error("--adapter lavapipe is for the Node.js part: it needs --only node");
    return { help: values.help ?? false, only, grep: values.grep, adapter };
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
