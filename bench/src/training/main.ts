import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry, type ComputeBackend, newHandle } from "@backplane/core";
import { quantile } from "../statistics.js";
import { batch, type ModelName, models, trainee } from "./models.js";

/*
 * Times steps of training: forward, gradients and optimizer, on a hundred images. Prints a table. The loss after the same
 * steps is compared between the backends, and must have fallen.
 */

const warmupSteps = 20;
const rounds = 5;
const roundMilliseconds = 300;
/** How far losses of two backends may be apart after the steps of the warm-up, relative to the loss. */
const tolerance = 1e-3;

interface Row {
  readonly model: string;
  readonly backend: string;
  /** Median of the rounds. */
  readonly step: number;
  /** Part of it in which the host makes calls. */
  readonly host: number;
  readonly recorded: number;
}

async function timed(
  model: ModelName,
  backend: ComputeBackend,
  name: string,
): Promise<Row & { loss: number }> {
  const { step, loss, recorded } = trainee(model, backend);
  const before = await loss();
  for (let i = 0; i < warmupSteps; i++) step();
  const after = await loss();
  if (!(after < before)) throw new Error(`${model} on ${name}: the loss went from ${before} to ${after}`);
  const samples: { readonly step: number; readonly host: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    let [steps, host] = [0, 0];
    do {
      const begin = performance.now();
      step();
      host += performance.now() - begin;
      steps++;
      // A device must not fall behind by seconds.
      if (steps % 16 === 0) await backend.synchronize();
    } while (performance.now() - start < roundMilliseconds);
    await backend.synchronize();
    samples.push({ step: (performance.now() - start) / steps, host: host / steps });
  }
  const median = (of: "step" | "host"): number =>
    1000 *
    quantile(
      samples.map((sample) => sample[of]),
      0.5,
    );
  return { model, backend: name, step: median("step"), host: median("host"), recorded, loss: after };
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

const registry = new BackendRegistry([webgpu(), cpu()]);
const rows: Row[] = [];
let isWrong = false;
for (const model of Object.keys(models) as ModelName[]) {
  const losses: number[] = [];
  for (const listing of await registry.list()) {
    if (!listing.available) continue;
    const { backend } = await registry.open([listing.name]);
    try {
      const row = await timed(model, backend, `${listing.name}, ${listing.device.name}`);
      rows.push(row);
      losses.push(row.loss);
    } finally {
      await backend.dispose();
    }
  }
  const apart = Math.max(...losses) / Math.min(...losses) - 1;
  if (apart > tolerance) {
    isWrong = true;
    console.error(`${model}: after ${warmupSteps} steps the losses are ${losses.join(" and ")}`);
  }
}
console.log("| model | backend | us a step | images/s | us of calls | recorded operations |");
console.log("| --- | --- | ---: | ---: | ---: | ---: |");
for (const { model, backend, step, host, recorded } of rows) {
  const cells = [
    model,
    backend,
    step.toFixed(0),
    ((1e6 * batch) / step).toFixed(0),
    host.toFixed(0),
    recorded,
  ];
  console.log(`| ${cells.join(" | ")} |`);
}
for (const model of Object.keys(models) as ModelName[])
  console.log(
    `${model}: ${hostMicroseconds(model).toFixed(1)} us of the library for each recorded operation, on an idle backend`,
  );
process.exitCode = isWrong ? 1 : 0;
