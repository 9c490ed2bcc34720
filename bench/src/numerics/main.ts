import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { cpu } from "@backplane/backend-cpu";
import { type WebGpuTier, webgpu } from "@backplane/backend-webgpu";
import {
  arithmeticKinds,
  BackendRegistry,
  type FloatType,
  floatTypes,
  floatUnaryKinds,
} from "@backplane/core";
import { checkWritable } from "@backplane/example-digits/disk.js";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { type Accuracy, binaryAccuracy, unaryAccuracy } from "./accuracy.js";
import { type Fact, facts } from "./facts.js";
import { type Range, rangeText } from "./ranges.js";
import { type Special, specials } from "./specials.js";

const tiers: readonly WebGpuTier[] = ["baseline", "subgroups", "shader-f16", "subgroup-matrices"];

const help = `Measures the arithmetic of a backend's unary and binary operations on the device at hand: the largest
error of each function in units in the last place, in all and by ranges of its argument (of binary functions:
of the exact result); whether functions rise, are odd, even and exact where they should be; and what becomes of
NaN, infinities, subnormal numbers, signed zeros and ties. It judges nothing; the conformance suite does.

  --backend NAME   cpu or webgpu; default webgpu
  --tier NAME      what webgpu may use of the device: ${tiers.join(", ")}; default shader-f16
  --samples N      numbers from each exponent of f32, either sign (default 1500: 2 10^6 in all); f16 is done whole
  --runs N         for what rises, is odd or even: runs of 4096 neighbours from each exponent of f32
                   (default 16: 3 10^7 numbers; 2048: all numbers); 0: none
  --dtype TYPE     f32 or f16; default both
  --only TEXT      only kinds whose name contains TEXT, and their largest errors only
  --json FILE      also write the results with device, versions and date, by single exponents, too
  --help           this text

Units of subnormal results are the smallest number; they are apart, since a device may flush them to zero.`;

const known = {
  backend: { type: "string", default: "webgpu" },
  tier: { type: "string" },
  samples: { type: "string", default: "1500" },
  runs: { type: "string", default: "16" },
  dtype: { type: "string" },
  only: { type: "string", default: "" },
  json: { type: "string" },
  help: { type: "boolean", default: false },
} as const;

tellSystemErrors();
process.exitCode = await main();

async function main(): Promise<number> {
  const options = parse();
  if (typeof options === "string") return refuse(options);
  if (options.help) {
    console.log(help);
    return 0;
  }
  const [samples, runs] = [Number(options.samples), Number(options.runs)];
  if (!Number.isSafeInteger(samples) || samples < 1 || samples > 100_000)
    return refuse(`--samples is ${options.samples}; allowed: 1 to 100000`);
  if (!Number.isSafeInteger(runs) || runs < 0 || runs > 2048)
    return refuse(`--runs is ${options.runs}; allowed: 0 to 2048`);
  if (options.dtype !== undefined && !floatTypes.includes(options.dtype as FloatType))
    return refuse(`--dtype is ${options.dtype}; allowed: ${floatTypes.join(", ")}`);
  if (options.backend !== "webgpu" && options.backend !== "cpu")
    return refuse(`--backend is ${options.backend}; allowed: cpu, webgpu`);
  if (![...floatUnaryKinds, ...arithmeticKinds].some((kind) => kind.includes(options.only)))
    return refuse(`--only is ${options.only}; allowed: a part of the name of a function`);
  const tier = options.tier as WebGpuTier | undefined;
  if (tier !== undefined && (options.backend === "cpu" || !tiers.includes(tier)))
    return refuse(`--tier is ${tier}; allowed: with --backend webgpu, ${tiers.join(", ")}`);

  if (options.json !== undefined) await checkWritable(options.json);
  // Arithmetic is the same with threads, whose modules one bundled file does not have.
  const registry = new BackendRegistry([webgpu(tier === undefined ? {} : { tier }), cpu({ threads: 0 })]);
  await using backend = registry.create(options.backend);
  await backend.init();
  const { device, numerics } = backend.capabilities;
  console.log(`${options.backend}: ${device.name}${about(device.details)}; Node.js ${process.version}\n`);
  console.log(line("function", "largest error", "of subnormals", "at"));
  const accuracies: Accuracy[] = [];
  const kept: Fact[] = [];
  const found: Special[] = [];
  const report = (accuracy: Accuracy): void => {
    accuracies.push(accuracy);
    console.log(block(accuracy));
  };
  for (const dtype of options.dtype === undefined ? floatTypes : [options.dtype as FloatType]) {
    for (const kind of floatUnaryKinds)
      if (kind.includes(options.only) && backend.supports("unary", { dtype, kind }))
        report(await unaryAccuracy(backend, dtype, kind, samples));
    for (const kind of arithmeticKinds)
      if (kind.includes(options.only) && backend.supports("binary", { dtype, kind }))
        report(await binaryAccuracy(backend, dtype, kind, 512 * samples));
    if (options.only !== "") continue;
    console.log("");
    await facts(backend, dtype, runs, (fact) => {
      kept.push(fact);
      console.log(factLine(fact));
    });
    found.push(...(await specials(backend, dtype)));
  }
  for (const { topic, dtype, calls, deviations } of found) {
    console.log(`\n${topic}, ${dtype}: ${calls - deviations.length} of ${calls} as in IEEE 754`);
    for (const deviation of deviations) console.log(`  ${deviation}`);
  }
  if (options.json !== undefined) {
    const head = { date: new Date().toISOString(), node: process.version, device, numerics, samples, runs };
    const results = { ...head, accuracies, facts: kept, specials: found };
    await writeFile(options.json, `${JSON.stringify(results, infinite)}\n`);
  }
  return 0;
}

function parse() {
  try {
    return parseArgs({ options: known }).values;
  } catch (error) {
    return (error as Error).message;
  }
}

function refuse(message: string): number {
  console.error(`${message}\n\n${help}`);
  return 2;
}

/** JSON has no word for infinities and NaN: as text. */
function infinite(_: string, value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

/** The details that affect arithmetic, besides the device itself. */
function about({ tier, relaxedSimd }: Readonly<Record<string, string>>): string {
  const parts = [tier && `tier ${tier}`, relaxedSimd && `relaxed SIMD ${relaxedSimd}`];
  return parts.map((part) => (part === undefined ? "" : `, ${part}`)).join("");
}

function line(label: string, worst: string, subnormal: string, rest: string): string {
  return `${label.padEnd(30)}${worst.padStart(13)}  ${subnormal.padEnd(14)}  ${rest}`.trimEnd();
}

/** The lines of one function: in all, and its ranges if there are several. */
function block({ operation, kind, dtype, worst, at, ranges, overflow, stray }: Accuracy): string {
  const call = (place: readonly number[]): string =>
    place.length === 0 ? "" : `${kind}(${place.slice(0, -1).join(", ")}) = ${place.at(-1)}`;
  const notes = [
    call(at),
    ...(overflow === "none" ? [] : [`overflow: ${overflow}`]),
    ...(stray === undefined ? [] : [`stray: ${call(stray)}`]),
  ];
  const all = line(
    `${kind} ${dtype}`,
    worst.toFixed(3),
    ranges.length === 1 ? ends(ranges[0]!) : "",
    notes.join("; "),
  );
  if (ranges.length === 1) return all;
  const rows = ranges.map((range) =>
    line(
      `  ${rangeText(range, operation === "unary" ? "x" : "y")}`,
      range.samples === 0 ? "" : range.worst.toFixed(3),
      ends(range),
      call(range.at),
    ),
  );
  return [all, ...rows].join("\n");
}

/** Returns what becomes of subnormal results, and whether subnormal arguments are taken for zeros. */
function ends({ subnormal: { kept, flushed, worst }, zeroed }: Range): string {
  const texts = [
    ...(kept > 0 ? [worst.toFixed(2)] : []),
    ...(flushed > 0 ? ["flushed"] : []),
    ...(zeroed > 0 ? ["x = 0"] : []),
  ];
  return texts.join(", ");
}

function factLine({ kind, dtype, claim, samples, broken, worst, example }: Fact): string {
  const label = `${kind} ${dtype}, ${claim}:`;
  if (example === undefined) return `${label} holds for ${samples} arguments`;
  return `${label} broken ${broken} times for ${samples} arguments, by ${worst.toFixed(2)} units at most: ${example}`;
}
