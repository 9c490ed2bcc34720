import { parseArgs } from "node:util";
import { type OperationName, operationNames } from "@backplane/core";
import { type PartSettings, parts } from "./parts.js";

export const help: string = `Puts the WebGPU adapter at hand before the laws of the conformance suite in every tier that it can do, with
parameters in immediates and in buffers, with operands in segments, and with each kernel forced by name.

  --only TEXT   only parts whose name contains TEXT; may be repeated
  --ops LIST    only laws on these operations, with commas between
  --jobs N      parts that run at a time, each in a process of its own (default 1)
  --mode MODE   quick or default (default): how many cases of each law
  --seed N      start of the random search (default 1)
  --json FILE   also write the reports, after each part anew
  --list        the names of the parts
  --help        this text

What the adapter cannot do is listed as not possible, with the reason. Exit code: 0 all laws kept, 1 a law
broken or unfinished or a part that ended before its report, 2 bad usage.`;

export interface Options extends PartSettings {
  readonly only: readonly string[];
  readonly jobs: number;
  readonly json: string | undefined;
  readonly list: boolean;
  readonly help: boolean;
}

/** Returns the options, or what is wrong with them. */
export function parseOptions(args: readonly string[]): Options | string {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        only: { type: "string", multiple: true, default: [] },
        ops: { type: "string" },
        jobs: { type: "string", default: "1" },
        mode: { type: "string", default: "default" },
        seed: { type: "string", default: "1" },
        json: { type: "string" },
        list: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    const { only, mode, json, list, help: wantsHelp } = values;
    const [jobs, seed] = [Number(values.jobs), Number(values.seed)];
    if (!(Number.isSafeInteger(jobs) && jobs >= 1 && jobs <= 64))
      return `--jobs is ${values.jobs}; allowed: 1 to 64`;
    if (!Number.isSafeInteger(seed)) return `--seed is ${values.seed}; allowed: whole numbers`;
    if (mode !== "quick" && mode !== "default") return `--mode is ${mode}; allowed: quick, default`;
    const unknown = only.find((text) => !parts.some(({ name }) => name.includes(text)));
    if (unknown !== undefined)
      return `--only ${unknown} is in no name; allowed: ${parts.map(({ name }) => name).join(", ")}`;
    const operations = values.ops?.split(",") as OperationName[] | undefined;
    const strange = operations?.find((name) => !operationNames.includes(name));
    if (strange !== undefined) return `--ops ${strange} is unknown; allowed: ${operationNames.join(", ")}`;
    return { only, operations, jobs, mode, seed, json, list, help: wantsHelp };
  } catch (error) {
    return (error as Error).message;
  }
}
