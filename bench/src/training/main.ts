import { writeFileSync } from "node:fs";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry, type ComputeBackend, newHandle } from "@backplane/core";
import { checkWritable } from "@backplane/example-digits/disk.js";
import { tellSystemErrors } from "@backplane/example-digits/system-errors.js";
import { register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { installPeers } from "../cpu/installed.js";
import { loadPeer } from "../cpu/peer.js";
import { provideGpu } from "../gpu-page.js";
import { quantile, ratios, stableSpread, summarise } from "../statistics.js";
import { openAnchor } from "./anchor.js";
import { openJax, openJaxOnGpu } from "./jax.js";
import { taskOf, trainee } from "./models.js";
import { parseTrainingOptions, type TrainingOptions, usage } from "./options.js";
import { batch, type ModelName, type Sample, stepsAhead, type Task, type Trainee } from "./task.js";
import { openTfjs } from "./tfjs.js";

/*
 * Times steps of training: forward, gradients and optimizer, on a hundred images. All take turns, round by round, and
 * must have the same loss after the same steps, which must have fallen.
 */

/** After these steps losses are compared. */
const verifiedSteps = 5;
/** How far the losses of two may be apart then, relative to the loss. */
const tolerance = 1e-3;
/** Of one of a round, at least. */
const sampleMilliseconds = 300;
/** Engines compile meanwhile, and compile again what turns out to be called often. */
const warmUpMilliseconds = 1000;

interface Contender {
  readonly name: string;
  open(task: Task): Trainee | Promise<Trainee>;
}

async function sample(trainee: Trainee, milliseconds = sampleMilliseconds): Promise<Sample> {
  if (trainee.sample !== undefined) return trainee.sample(milliseconds);
  const start = performance.now();
  let [steps, host] = [0, 0];
  do {
    const begin = performance.now();
    await trainee.step();
    host += performance.now() - begin;
    steps++;
    if (steps % stepsAhead === 0) await trainee.settle();
  } while (performance.now() - start < milliseconds);
  await trainee.settle();
  return { step: (performance.now() - start) / steps, host: host / steps };
}

/** Does the steps after which losses are compared. Throws if the loss has not fallen. */
async function verifiedLoss(name: string, trainee: Trainee): Promise<number> {
  const before = await trainee.loss();
  for (let i = 0; i < verifiedSteps; i++) await trainee.step();
  const after = await trainee.loss();
  if (!(after < before)) throw new Error(`${name}: the loss went from ${before} to ${after}`);
  return after;
}

interface Row {
  readonly model: ModelName;
  readonly name: string;
  readonly samples: readonly Sample[];
}

/**
 * Prints a line for each contender. The first one is what the others are compared with. One that fails, or whose loss is not
 * that of the first one, is named and not timed.
 */
async function measure(
  contenders: readonly Contender[],
  task: Task,
  rounds: number,
): Promise<readonly Row[]> {
  const opened: { readonly name: string; readonly trainee: Trainee; readonly samples: Sample[] }[] = [];
  let expected: number | undefined;
  try {
    for (const { name, open } of contenders) {
      let trainee: Trainee | undefined;
      try {
        trainee = await open(task);
        const loss = await verifiedLoss(name, trainee);
        expected ??= loss;
        if (!(Math.abs(loss / expected - 1) <= tolerance))
          throw new Error(
            `after ${verifiedSteps} steps the loss is ${loss}, that of the first one ${expected}`,
          );
        await sample(trainee, warmUpMilliseconds);
        opened.push({ name, trainee, samples: [] });
      } catch (error) {
        process.exitCode = 1;
        console.error(`${task.model}: ${name}: ${(error as Error).message}`);
        await trainee?.close();
      }
    }
    for (let round = 0; round < rounds; round++)
      for (const { trainee, samples } of opened) samples.push(await sample(trainee));
    for (const { name, samples } of opened) print(task.model, name, samples, opened[0]!.samples);
    return opened.map(({ name, samples }) => ({ model: task.model, name, samples }));
  } finally {
    for (const { trainee } of opened) await trainee.close();
  }
}

function print(model: ModelName, name: string, samples: readonly Sample[], first: readonly Sample[]): void {
  const milliseconds = (of: keyof Sample, list = samples) => list.map((sample) => sample[of]);
  const step = quantile(milliseconds("step"), 0.5);
  const times = summarise(ratios(milliseconds("step", first), milliseconds("step")));
  const cells = [
    model,
    name,
    (1000 * step).toFixed(0),
    ((1000 * batch) / step).toFixed(0),
    (1000 * quantile(milliseconds("host"), 0.5)).toFixed(0),
    `${times.median.toPrecision(3)}${times.spread > stableSpread ? " ?" : ""}`,
  ];
  console.log(`| ${cells.join(" | ")} |`);
}

/** A backend that does nothing: what is left is the time of the library itself. */
function idle(): ComputeBackend {
  const nothing = (): void => {};
  const known: Readonly<Record<string, unknown>> = { name: "idle", alloc: newHandle, supports: () => true };
  return new Proxy({} as ComputeBackend, {
    get: (_, method: string) => known[method] ?? nothing,
  });
}

/** Of short series the fastest, which others on the machine have not disturbed. */
function hostMicroseconds(model: ModelName): number {
  const { step, recorded } = trainee(model, idle());
  for (let i = 0; i < 2000; i++) step();
  const [series, steps] = [200, 20];
  const samples = Array.from({ length: series }, () => {
    const start = performance.now();
    for (let i = 0; i < steps; i++) step();
    return (1000 * (performance.now() - start)) / steps / recorded;
  });
  return Math.min(...samples);
}

/** Ours on every backend of this machine, the CPU first; or on WebGPU only. */
async function openOurs({
  threads,
  gpu,
}: TrainingOptions): Promise<{ backends: ComputeBackend[]; contenders: Contender[] }> {
  const registry = new BackendRegistry(gpu ? [webgpu()] : [cpu({ threads }), webgpu()]);
  const backends: ComputeBackend[] = [];
  for (const { name, available } of await registry.list())
    if (available) backends.push((await registry.open([name])).backend);
  // Throws with the reasons.
  if (backends.length === 0) await registry.open();
  const contenders = backends.map((backend) => ({
    name: `${backend.name}, ${backend.capabilities.device.name}`,
    open: ({ model }: Task) => trainee(model, backend),
  }));
  return { backends, contenders };
}

async function openPeers({
  threads,
  gpu,
}: TrainingOptions): Promise<{ contenders: Contender[]; close(): Promise<void> }> {
  const missing = installPeers();
  if (missing !== undefined) throw new Error(missing);
  const ours = await register(tf, gpu ? [webgpu()] : [cpu({ threads })]);
  if (gpu) {
    await provideGpu();
    await loadPeer("@tensorflow/tfjs-backend-webgpu");
  }
  const theirs = gpu ? "webgpu" : "cpu";
  const onTfjs = (backend: string, name: string): Contender => ({
    name,
    open: (task) => openTfjs(backend, task),
  });
  return {
    contenders: [
      onTfjs(ours.name, `TensorFlow.js ${tf.version_core} on @backplane/tfjs`),
      onTfjs(theirs, `TensorFlow.js ${tf.version_core}, ${theirs}`),
      gpu ? await openJaxOnGpu() : await openJax(Math.max(1, threads)),
    ],
    close: async () => {
      await tf.setBackend(theirs);
      await ours.dispose();
    },
  };
}

async function main(options: TrainingOptions): Promise<void> {
  const { rounds, names } = options;
  if (options.json !== undefined) await checkWritable(options.json);
  const { backends, contenders } = await openOurs(options);
  const others = options.peers ? await openPeers(options) : undefined;
  const anchors = [];
  for (const command of options.anchors)
    try {
      anchors.push(await openAnchor(command));
    } catch (error) {
      process.exitCode = 1;
      console.error(`${command}: ${(error as Error).message}`);
    }
  const all = [...contenders, ...(others?.contenders ?? []), ...anchors];
  console.log(`| model | on | us a step | images/s | us of calls | times that of ${contenders[0]?.name} |`);
  console.log("| --- | --- | ---: | ---: | ---: | ---: |");
  const rows: Row[] = [];
  for (const name of names) rows.push(...(await measure(all, await taskOf(name), rounds)));
  await others?.close();
  for (const anchor of anchors) await anchor.stop();
  for (const backend of backends) await backend.dispose();
  const host = names.map((name) => ({ model: name, microseconds: hostMicroseconds(name) }));
  for (const { model, microseconds } of host)
    console.log(
      `${model}: ${microseconds.toFixed(1)} us of the library for each recorded operation, on an idle backend`,
    );
  const { json } = options;
  if (json !== undefined) writeFileSync(json, `${JSON.stringify({ batch, rows, host }, null, 1)}\n`);
}

tellSystemErrors();
let options: TrainingOptions | undefined;
try {
  options = parseTrainingOptions(process.argv.slice(2));
} catch (error) {
  console.error(`${(error as Error).message}\n\n${usage}`);
  process.exitCode = 2;
}
if (options?.help) console.log(usage);
else if (options !== undefined) {
  await main(options);
  // jax-js leaves threads behind that it has no call to end.
  if (options.peers) process.exit();
}
