#!/usr/bin/env node
// Runs any command on the software adapter: node tools/software-adapter/dist/cli.js -- node script.js
import { runCommand } from "./run.js";
import { SoftwareAdapterUnavailable } from "./unavailable.js";

const args = process.argv.slice(2);
if (args[0] === "--") args.shift();
const [command, ...rest] = args;
if (command === undefined) {
  console.error("usage: cli.js -- command [argument ...]");
  process.exit(2);
}
try {
  process.exitCode = await runCommand(command, rest);
} catch (error) {
  if (!(error instanceof SoftwareAdapterUnavailable)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
