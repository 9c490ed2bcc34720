import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { checkWritable } from "@backplane/example-digits/disk.js";
import { register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { commandLine, wholeNumber } from "../command-line.js";
import { installPeers } from "../cpu/installed.js";
import { loadPeer } from "../cpu/peer.js";
import { provideGpu } from "../gpu-page.js";
import { quantile, ratios, stableSpread, summarise } from "../statistics.js";
import { assertClose, resultsOf, type TfjsCase, tfjsCases } from "./cases.js";

/*
 * Times programs of TensorFlow.js on @backplane/tfjs, with the CPU backend next to tfjs-backend-wasm, or with the WebGPU backend
 * next to tfjs-backend-webgpu, in the same process. Both must give what tfjs-backend-cpu gives before they are timed. They take turns, round by round.
 */

const usage = `node bench/dist/tfjs/main.js [options]

  --gpu         on WebGPU, next to tfjs-backend-webgpu
  --threads N   threads of ours; 0: the calling one, as tfjs-backend-wasm has in Node.js (default 0)
  --name NAME   of our backend in TensorFlow.js: short ones are found faster (default backplane)
  --only TEXT   cases with this in their names
  --rounds N    rounds of each case (default 40)
  --json FILE   also writes the rows
  --busy        counts the time of the process on all cores in place of the time on the wall: for --threads 0 on a machine that
                others use
  --help        this text
`;

const options = commandLine(usage, () => {
  const { values } = parseArgs({
    options: {
      threads: { type: "string", default: "0" },
      name: { type: "string", default: "backplane" },
      only: { type: "string", default: "" },
      rounds: { type: "string", default: "40" },
      busy: { type: "boolean", default: false },
      gpu: { type: "boolean", default: false },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  const threads = wholeNumber("threads", values.threads, 0);
  const cases = tfjsCases.filter(({ name }) => name.includes(values.only));
  if (cases.length === 0) throw new Error(`no case's name contains ${values.only}`);
  return { ...values, cases, threads, rounds: wholeNumber("rounds", values.rounds, 1) };
});

/** What a sample takes at least, roughly. */
const sampleMilliseconds = 5;
/** Of a call: clocks may not see shorter ones. */
const leastSeconds = 1e-6;
/** Engines compile meanwhile, and compile again what turns out to be called often. */
const warmUpSeconds = 1;
const warmUpRounds = 5;
/** Of the samples of a case: those above were disturbed by others. */
const quiet = 0.25;

/** Seconds, from any time on. */
function now(): number {
  if (!options.busy) return performance.now() / 1000;
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

const names = { ours: options.name, other: options.gpu ? "webgpu" : "wasm" };
const otherPackage = `@tensorflow/tfjs-backend-${names.other}`;

interface Contender {
  readonly backend: string;
  /** Seconds for one call, on average over `calls`. */
  sample(calls: number): Promise<number>;
  close(): Promise<void>;
}

/** Tensors lie on the backend on which they are made: each contender has its own. */
async function open(backend: string, { kind, prepare }: TfjsCase): Promise<Contender> {
  await tf.setBackend(backend);
  const { call, kept } = prepare();
  /** Devices other than the calling thread's cannot be waited for. */
  const run = (isRead: boolean): void | Promise<void> => {
    const results = tf.tidy(call);
    const free = () => tf.dispose(results);
    if (isRead && options.gpu) return Promise.all([results].flat().map((result) => result.data())).then(free);
    if (isRead) for (const result of [results].flat()) result.dataSync();
    free();
  };
  return {
    backend,
    async sample(calls) {
      await tf.setBackend(backend);
      const begun = now();
      for (let i = 1; i < calls; i++) {
        const waiting = run(kind === "model");
        if (waiting !== undefined) await waiting;
      }
      await run(true);
      return (now() - begun) / calls;
    },
    async close() {
      await tf.setBackend(backend);
      tf.dispose([...kept]);
    },
  };
}

interface Row {
  /** Seconds. */
  readonly ours: number;
  readonly other: number;
  readonly ratio: number;
  readonly isUnstable: boolean;
}

async function measure(test: TfjsCase, rounds: number): Promise<Row> {
  await tf.setBackend("cpu");
  const expected = await resultsOf(test);
  for (const backend of Object.values(names)) {
    await tf.setBackend(backend);
    assertClose(backend, await resultsOf(test), expected);
  }
  const contenders = [await open(names.ours, test), await open(names.other, test)] as const;
  try {
    // As many calls for both.
    let calls = 1;
    for (const contender of contenders) {
      let seconds = 0;
      for (const end = now() + warmUpSeconds; now() < end; ) seconds = await contender.sample(20);
      calls = Math.max(calls, Math.ceil(sampleMilliseconds / 1000 / Math.max(seconds, leastSeconds)));
    }
    const samples = { ours: [] as number[], other: [] as number[] };
    for (let round = 0; round < warmUpRounds + rounds; round++) {
      const [ours, other] = [await contenders[0].sample(calls), await contenders[1].sample(calls)];
      if (round < warmUpRounds) continue;
      samples.ours.push(ours);
      samples.other.push(other);
    }
    const [ours, other] = [quantile(samples.ours, quiet), quantile(samples.other, quiet)];
    const { spread } = summarise(ratios(samples.ours, samples.other));
    return { ours, other, ratio: other / ours, isUnstable: spread > stableSpread };
  } finally {
    for (const contender of contenders) await contender.close();
  }
}

/** The least ratio that is wanted: of models 1.5 on one thread, and 2.2 on two; on a GPU 1.5 of all. */
function goalOf({ kind }: TfjsCase, threads: number): number {
  if (options.gpu) return 1.5;
  if (kind === "small") return 1;
  return threads > 1 ? 2.2 : 1.5;
}

async function main(threads: number, rounds: number): Promise<void> {
  const missing = installPeers();
  if (missing !== undefined) throw new Error(missing);
  if (options.gpu) await provideGpu();
  await loadPeer(otherPackage);
  if (!(await tf.setBackend(names.other))) throw new Error(`${otherPackage} does not start`);
  const registration = await register(tf, [options.gpu ? webgpu() : cpu({ threads })], { name: names.ours });
  const { device } = registration.capabilities;
  const processor = device.details?.processor ?? device.details?.tier;
  console.log(`${device.name} (${processor}), Node.js ${process.versions.node}\n`);
  console.log(`| case | ours, us | tfjs-backend-${names.other}, us | times as fast | goal |`);
  console.log("| --- | ---: | ---: | ---: | ---: |");
  const rows: (Row & { readonly case: string })[] = [];
  for (const test of options.cases)
    try {
      const row = await measure(test, rounds);
      rows.push({ case: test.name, ...row });
      const { ours, other, ratio, isUnstable } = row;
      const [a, b] = [ours, other].map((seconds) => (1e6 * seconds).toPrecision(3));
      const goal = goalOf(test, threads);
      const verdict = `${goal}${ratio >= goal ? "" : ", missed"}`;
      console.log(
        `| ${test.name} | ${a} | ${b} | ${ratio.toFixed(2)}${isUnstable ? " ?" : ""} | ${verdict} |`,
      );
    } catch (error) {
      process.exitCode = 1;
      console.log(`| ${test.name} | wrong: ${(error as Error).message} | | | |`);
    }
  if (options.json !== undefined)
    writeFileSync(
      options.json,
      `${JSON.stringify({ device: device.name, name: names.ours, rows }, null, 1)}\n`,
    );
  await registration.dispose();
}

if (options.json !== undefined) await checkWritable(options.json);
await main(options.threads, options.rounds);
