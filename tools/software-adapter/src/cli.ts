#!/usr/bin/env node
// Runs any command on a software adapter: node tools/software-adapter/dist/cli.js -- node script.js
import { type CommandLine, parseCommandLine, USAGE } from "./command-line.js";
import { runCommand } from "./run.js";
import { SoftwareAdapterUnavailable } from "./unavailable.js";

if (process.argv[2] === "--help") {
  console.log(USAGE);
  process.exit(0);
}
let line: CommandLine;
try {
  line = parseCommandLine(process.argv.slice(2));
} catch (error) {
  console.error((error as Error).message);
  process.exit(2);
}
try {
  process.exitCode = await runCommand(line.command, line.args, { adapter: line.adapter });
} catch (error) {
  // The latter if there is no such command.
  if (!(error instanceof SoftwareAdapterUnavailable || (error instanceof Error && "syscall" in error)))
    throw error;
  console.error(error.message);
  process.exitCode = 1;
}
