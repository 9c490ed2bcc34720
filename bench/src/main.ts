import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry } from "@backplane/core";
import { cases } from "./cases.js";
import { type Measurement, measure } from "./measure.js";

const help = `Times the operations of a backend, each checked against float64 first.

  --backend NAME   cpu or webgpu; may be repeated (default: every backend of this machine)
  --size SIZE      small (two cores, software adapters) or large (GPUs); default small
  --only TEXT      only cases whose operation or name contains TEXT
  --threads N      worker threads of the cpu backend
  --json FILE      also write the results with device, versions and date
  --help           this text`;

const { values: options } = parseArgs({
  options: {
    backend: { type: "string", multiple: true },
    size: { type: "string", default: "small" },
    only: { type: "string", default: "" },
    threads: { type: "string" },
    json: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

if (options.help) console.log(help);
else process.exitCode = await main();

async function main(): Promise<number> {
  if (options.size !== "small" && options.size !== "large") {
    console.error(`--size is ${options.size}; allowed: small, large`);
    return 2;
  }
  const threads = options.threads === undefined ? {} : { threads: Number(options.threads) };
  const registry = new BackendRegistry([cpu(threads), webgpu()]);
  const devices: Record<string, unknown> = {};
  const results: Measurement[] = [];
  let failures = 0;
  for (const listing of await registry.list()) {
    if (options.backend !== undefined && !options.backend.includes(listing.name)) continue;
    if (!listing.available) {
      console.log(`${listing.name}: not available here: ${listing.reason}`);
      // Left out where it was not asked for; an error where it was.
      if (options.backend !== undefined) failures++;
      continue;
    }
    await using backend = registry.create(listing.name);
    await backend.init();
    devices[listing.name] = backend.capabilities.device;
    console.log(`\n${listing.name}: ${backend.capabilities.device.name}`);
    for (const test of cases[options.size]) {
      if (!`${test.operation} ${test.name}`.includes(options.only)) continue;
      try {
        const result = await measure(backend, listing.name, test);
        results.push(result);
        console.log(row(result));
      } catch (error) {
        failures++;
        console.log(`${test.operation} ${test.name}: ${error instanceof Error ? error.message : error}`);
      }
    }
  }
  if (options.json !== undefined) {
    const report = { date: new Date().toISOString(), node: process.version, devices, results };
    await writeFile(options.json, `${JSON.stringify(report, null, 2)}\n`);
  }
  return failures === 0 ? 0 : 1;
}

function row(result: Measurement): string {
  const label = `${result.operation} ${result.dtype} ${result.case}`;
  const speed =
    result.operation === "reduce" || result.operation === "unary" || result.operation === "binary"
      ? `${result.gigabytesPerSecond.toFixed(1)} GB/s`
      : `${result.gflops.toFixed(1)} GFLOP/s`;
  return `  ${label.padEnd(58)} ${result.microseconds.toFixed(0).padStart(9)} us ${speed.padStart(16)}`;
}
