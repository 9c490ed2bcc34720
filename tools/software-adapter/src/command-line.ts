import type { SoftwareAdapter } from "./adapter.js";

export interface CommandLine {
  readonly adapter: SoftwareAdapter;
  readonly command: string;
  readonly args: readonly string[];
}

export const USAGE: string = "usage: cli.js [--adapter swiftshader|lavapipe] -- command [argument ...]";

/** Reads only the words before the command; the command's own words are left alone. */
export function parseCommandLine(words: readonly string[]): CommandLine {
  const rest = [...words];
  let adapter: SoftwareAdapter = "swiftshader";
  if (rest[0] === "--adapter") {
    const name = rest[1];
    if (name !== "swiftshader" && name !== "lavapipe")
      throw new Error(`--adapter is swiftshader or lavapipe, not "${name ?? ""}"\n${USAGE}`);
    adapter = name;
    rest.splice(0, 2);
  }
  if (rest[0] === "--") rest.shift();
  else if (rest[0]?.startsWith("-")) throw new Error(`${rest[0]} is no option\n${USAGE}`);
  const [command, ...args] = rest;
  if (command === undefined) throw new Error(USAGE);
  return { adapter, command, args };
}
