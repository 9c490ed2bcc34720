import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { checkWritable } from "@backplane/example-digits/disk.js";
import type { Case } from "./cases/case.js";
import { commandLine, oneOf, wholeNumber } from "./command-line.js";
import { type Contender, Expectations, openContender } from "./contender.js";
import { openPeerCase } from "./cpu/compare.js";
import { installPeers } from "./cpu/installed.js";
import { openJaxOnGpu } from "./cpu/jax.js";
import { openOnnxRuntimeOnGpu } from "./cpu/onnxruntime-gpu.js";
import type { GpuPeerName, Peer } from "./cpu/peer.js";
import { peerRows } from "./cpu/rows.js";
import { openTfjsOnGpu } from "./cpu/tfjs.js";
import { provideGpu } from "./gpu-page.js";
import { quantile, ratios, stableSpread, summarise } from "./statistics.js";

/*
 * Times operations on WebGPU next to other libraries on the same device, in one process and in turns: series of calls that are waited
 * for at their end. All results are compared with float64 first. The cases are those of the CPU.
 */

const openers = {
  "onnxruntime-web": () => openOnnxRuntimeOnGpu("C++"),
  "onnxruntime-web-jsep": () => openOnnxRuntimeOnGpu("JavaScript"),
  "tfjs-backend-webgpu": openTfjsOnGpu,
  "jax-js": openJaxOnGpu,
} as const satisfies Record<GpuPeerName, () => Promise<Peer<GpuPeerName>>>;

const names = Object.keys(openers) as GpuPeerName[];

const usage = `node bench/dist/gpu-peers.js [options]

  --only TEXT   cases with this in their names; may be repeated
  --skip TEXT   not those with this in their names; may be repeated
  --peer NAME   ${names.join(", ")}; may be repeated; default: all
  --rounds N    how often everybody is timed (default 5)
  --milliseconds N  how long a sample lasts at least (default 30)
  --json FILE   also writes the samples
  --help        this text
`;

/** How many times as fast as the best of the others ours should be. */
const goal = 1.3;

/** Before each sample. The card lowers its clocks while somebody waits for the host, and takes a while to raise them again. */
const warmUpSeconds = 0.05;

/** Whether a case is asked for. */
function isChosen(name: string, only: readonly string[], skip: readonly string[]): boolean {
  return (
    (only.length === 0 || only.some((text) => name.includes(text))) &&
    !skip.some((text) => name.includes(text))
  );
}

const options = commandLine(usage, () => {
  const { values } = parseArgs({
    options: {
      only: { type: "string", multiple: true, default: [] },
      skip: { type: "string", multiple: true, default: [] },
      peer: { type: "string", multiple: true, default: [] },
      rounds: { type: "string", default: "5" },
      milliseconds: { type: "string", default: "30" },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const peer = values.peer.map((name) => oneOf("peer", name, names));
  const rounds = wholeNumber("rounds", values.rounds, 1);
  const cases = peerRows
    .map(({ test }) => test)
    .filter(({ name }) => isChosen(name, values.only, values.skip));
  if (cases.length === 0) throw new Error("--only and --skip leave no case");
  return {
    ...values,
    peer,
    cases,
    rounds,
    milliseconds: wholeNumber("milliseconds", values.milliseconds, 1),
  };
});

interface Row {
  readonly case: string;
  /** Seconds per call, by who made it. */
  readonly samples: Readonly<Record<string, readonly number[]>>;
  /** Why somebody is left out. */
  readonly missing: Readonly<Record<string, string>>;
}

/** The first line of it. Libraries throw other things than errors, too. */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.split("\n")[0]!.slice(0, 200);
}

async function measure(
  backend: ComputeBackend,
  peers: readonly Peer<GpuPeerName>[],
  test: Case,
): Promise<Row> {
  const expected = new Expectations(test);
  const missing: Record<string, string> = {};
  const entries: { readonly name: string; readonly contender: Contender; readonly samples: number[] }[] = [];
  try {
    entries.push({
      ...{ name: "backplane", contender: await openContender(backend, test, expected), samples: [] },
    });
    for (const peer of peers)
      try {
        entries.push({
          ...{ name: peer.name, contender: await openPeerCase(peer, test, expected), samples: [] },
        });
      } catch (error) {
        missing[peer.name] = reasonOf(error);
      }
    const sample = options.milliseconds / 1000;
    for (const { contender } of entries) await contender.sample({ sample, warmUp: 4 * sample });
    for (let round = 0; round < options.rounds; round++)
      for (const { contender, samples } of entries)
        samples.push(await contender.sample({ sample, warmUp: warmUpSeconds }));
    const samples = Object.fromEntries(entries.map((entry) => [entry.name, entry.samples]));
    return { case: test.name, samples, missing };
  } finally {
    for (const { contender } of entries) await contender.close();
  }
}

function line({ case: name, samples }: Row): string {
  const { backplane: ours = [], ...others } = samples;
  const factors = Object.fromEntries(
    Object.entries(others).map(([who, theirs]) => [who, summarise(ratios(ours, theirs))]),
  );
  const cells = names.map((who) => {
    const factor = factors[who];
    if (factor === undefined) return "-";
    return `${factor.median.toPrecision(3)}${factor.spread > stableSpread ? " ?" : ""}`;
  });
  const least = Math.min(...Object.values(factors).map(({ median }) => median));
  const verdict = Number.isFinite(least) ? (least >= goal ? "reached" : "missed") : "nothing to compare";
  return `| ${[name, (1e6 * quantile(ours, 0.5)).toPrecision(3), ...cells, verdict].join(" | ")} |`;
}

async function main(): Promise<void> {
  const failure = installPeers();
  if (failure !== undefined) throw new Error(failure);
  const backend = createWebGpuBackend();
  await backend.init();
  await provideGpu();
  const peers: Peer<GpuPeerName>[] = [];
  for (const name of names.filter((each) => options.peer.length === 0 || options.peer.includes(each)))
    try {
      const peer = await openers[name]();
      console.log(`${name} ${peer.version}: ${peer.note}`);
      peers.push(peer);
    } catch (error) {
      process.exitCode = 1;
      console.error(`${name}: ${(error as Error).message}`);
    }
  const device = backend.capabilities.device.name;
  console.log(`\n${device}, Node.js ${process.versions.node}; how many times as fast ours was\n`);
  console.log(`| case | us | ${names.join(" | ")} | goal ${goal} |`);
  console.log(`| --- | ---: | ${names.map(() => "---:").join(" | ")} | --- |`);
  const rows: Row[] = [];
  for (const test of options.cases) {
    try {
      const row = await measure(backend, peers, test);
      rows.push(row);
      console.log(line(row));
    } catch (error) {
      process.exitCode = 1;
      console.log(`| ${test.name} | ${reasonOf(error)} |`);
    }
    // What there is stays if the rest is interrupted.
    if (options.json !== undefined)
      writeFileSync(options.json, `${JSON.stringify({ device, rows }, null, 1)}\n`);
  }
  for (const { case: name, missing } of rows)
    for (const [who, reason] of Object.entries(missing)) console.log(`${who}, ${name}: ${reason}`);
  await backend.dispose();
}

if (options.json !== undefined) await checkWritable(options.json);
await main();
// Libraries leave devices behind that they have no call to end.
process.exit();
