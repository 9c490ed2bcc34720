import { parseArgs } from "node:util";
import { type Tag, type TagFilter, tagNames, tags } from "./tags.js";

export interface Options extends TagFilter {
  readonly help: boolean;
  /** Neither builds nor lints. */
  readonly built: boolean;
  /** Also what has passed before with the same code. */
  readonly all: boolean;
  /** Notes what has passed. */
  readonly record: boolean;
  readonly only: "node" | "browser" | undefined;
  readonly grep: string | undefined;
  readonly adapter: "software" | "lavapipe" | "system" | undefined;
}

export const USAGE: string = `usage: pnpm test [-- [--only node|browser] [--tag TAG] [--without TAG] [--grep PATTERN]
                      [--adapter software|lavapipe|system] [--built] [--all] [--record]]

  --only node, --only browser  one of the two parts
  --tag TAG                    files with this tag in their first line; may be repeated for more of them
  --without TAG                files that lack this tag; may be repeated
  --grep PATTERN               tests whose full title matches this regular expression
  --adapter software           SwiftShader, from npm; what is tested on where nothing is asked for,
                               except on machines for which there is none
  --adapter lavapipe           Mesa's software Vulkan, for the Node.js part; it has to be there:
                               see tools/software-adapter/README.md
  --adapter system             the machine's own GPU, and the Chrome installed on it
  --built                      without the build and the lint, which have just been done
  --all                        also files whose tests have passed here before, with the same code
  --record                     notes which files have passed, in tools/test-runner/proven.json
  --help                       this text

tags:
${tagNames.map((name) => `  ${name.padEnd(9)} ${tags[name]}`).join("\n")}`;

export class UsageError extends Error {}

/** Reads the command line. pnpm passes a leading "--" on, so one is ignored. */
export function parseOptions(args: readonly string[]): Options {
  const rest = args[0] === "--" ? args.slice(1) : [...args];
  try {
    const { values } = parseArgs({
      args: rest,
      options: {
        help: { type: "boolean" },
        built: { type: "boolean" },
        all: { type: "boolean" },
        record: { type: "boolean" },
        only: { type: "string" },
        tag: { type: "string", multiple: true },
        without: { type: "string", multiple: true },
        grep: { type: "string" },
        adapter: { type: "string" },
      },
    });
    const only = oneOf("only", values.only, ["node", "browser"]);
    const adapter = oneOf("adapter", values.adapter, ["software", "lavapipe", "system"]);
    if (adapter === "lavapipe" && only !== "node")
      throw new Error("--adapter lavapipe is for the Node.js part: it needs --only node");
    const { help = false, built = false, all = false, record = false, grep, tag, without = [] } = values;
    if (record && grep !== undefined) throw new Error("--record is for whole files: it goes without --grep");
    // What is no regular expression throws here, before the build.
    if (grep !== undefined) new RegExp(grep);
    return {
      help,
      built,
      all,
      record,
      only,
      tag: tag && tagsFrom("tag", tag),
      without: tagsFrom("without", without),
      grep,
      adapter,
    };
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n${USAGE}`);
  }
}

function tagsFrom(name: string, values: readonly string[]): readonly Tag[] {
  return values.map((value) => oneOf(name, value, tagNames)!);
}

function oneOf<Choice extends string>(
  name: string,
  value: string | undefined,
  choices: readonly Choice[],
): Choice | undefined {
  if (value === undefined || choices.includes(value as Choice)) return value as Choice | undefined;
  throw new Error(`--${name} is ${choices.join(" or ")}, not "${value}"`);
}
