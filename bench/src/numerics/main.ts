import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry, binaryKinds, type DType, dtypes, unaryKinds } from "@backplane/core";
import { type Accuracy, binaryAccuracy, unaryAccuracy } from "./accuracy.js";
import { type Special, specials } from "./specials.js";

const help = `Measures the arithmetic of a backend's unary and binary operations on the device at hand: the largest
error of each function in units in the last place, and what becomes of NaN, infinities, subnormal
numbers, signed zeros and ties. It judges nothing; the conformance suite does.

  --backend NAME   cpu or webgpu; default webgpu
  --samples N      numbers from each exponent of f32, either sign (default 1500: 10^6 in all); f16 is done whole
  --dtype TYPE     f32 or f16; default both
  --only TEXT      only kinds whose name contains TEXT, and no special values
  --json FILE      also write the results with device, versions and date
  --help           this text`;

const { values: options } = parseArgs({
  options: {
    backend: { type: "string", default: "webgpu" },
    samples: { type: "string", default: "1500" },
    dtype: { type: "string" },
    only: { type: "string", default: "" },
    json: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

if (options.help) console.log(help);
else process.exitCode = await main();

async function main(): Promise<number> {
  const samples = Number(options.samples);
  if (!Number.isSafeInteger(samples) || samples < 1 || samples > 100_000)
    return refuse(`--samples is ${options.samples}; allowed: 1 to 100000`);
  if (options.dtype !== undefined && !dtypes.includes(options.dtype as DType))
    return refuse(`--dtype is ${options.dtype}; allowed: ${dtypes.join(", ")}`);
  if (options.backend !== "webgpu" && options.backend !== "cpu")
    return refuse(`--backend is ${options.backend}; allowed: cpu, webgpu`);

  await using backend = new BackendRegistry([webgpu(), cpu()]).create(options.backend);
  await backend.init();
  const { device, numerics } = backend.capabilities;
  console.log(`${options.backend}: ${device.name}\n`);
  console.log(
    `${"function".padEnd(18)}${"worst, ulp".padStart(11)}  ${"overflow".padEnd(10)}${"underflow".padEnd(10)}at`,
  );
  const accuracies: Accuracy[] = [];
  const found: Special[] = [];
  const report = (accuracy: Accuracy): void => {
    accuracies.push(accuracy);
    console.log(row(accuracy));
  };
  for (const dtype of options.dtype === undefined ? dtypes : [options.dtype as DType]) {
    for (const kind of unaryKinds)
      if (kind.includes(options.only) && backend.supports("unary", dtype, kind))
        report(await unaryAccuracy(backend, dtype, kind, samples));
    for (const kind of binaryKinds)
      if (kind.includes(options.only) && backend.supports("binary", dtype, kind))
        report(await binaryAccuracy(backend, dtype, kind, 512 * samples));
    if (options.only === "") found.push(...(await specials(backend, dtype)));
  }
  for (const { topic, dtype, calls, deviations } of found) {
    console.log(`\n${topic}, ${dtype}: ${calls - deviations.length} of ${calls} as in IEEE 754`);
    for (const deviation of deviations) console.log(`  ${deviation}`);
  }
  if (options.json !== undefined) {
    const head = { date: new Date().toISOString(), node: process.version, device, numerics, samples };
    await writeFile(options.json, `${JSON.stringify({ ...head, accuracies, specials: found }, null, 2)}\n`);
  }
  return 0;
}

function refuse(message: string): number {
  console.error(message);
  return 2;
}

function row({ kind, dtype, worst, at, overflow, underflow, stray }: Accuracy): string {
  const [result, ...reversed] = [...at].reverse();
  const label = `${kind} ${dtype}`.padEnd(18);
  const place = `${kind}(${reversed.reverse().join(", ")}) = ${result}`;
  const astray = stray === undefined ? "" : `; stray: ${stray.slice(0, -1).join(", ")} gave ${stray.at(-1)}`;
  return `${label}${worst.toFixed(3).padStart(11)}  ${overflow.padEnd(10)}${underflow.padEnd(10)}${place}${astray}`;
}
