import { writeFile } from "node:fs/promises";
import { setImmediate } from "node:timers/promises";
import type { Communicator } from "@backplane/collectives";
import {
  type BackendListing,
  type BackendRegistry,
  type SwapReport,
  SwitchableBackend,
} from "@backplane/core";
import { disposeParameters, type Layer, linearSchedule, parametersOf, Sgd } from "@backplane/tensor";
import { loadCheckpoint, saveCheckpoint } from "./checkpoint.js";
import { type Digits, firstDigits } from "./data.js";
import { onDisk } from "./disk.js";
import { type DrawnDigit, drawDigits } from "./drawing.js";
import { countCorrect, type Difference, largestDifference, logitsOf, predictions } from "./evaluation.js";
import { createModel, recipes } from "./models.js";
import type { Options } from "./options.js";
import { firstOf, planStretches, type Stretch, withoutFirst } from "./plan.js";
import { plotLoss, svgOfLoss } from "./plot.js";
import { type Output, ProgressBar } from "./progress.js";
import { describeRate, describeSwap } from "./report.js";
import type { RunResult } from "./result.js";
import { type Reading, type StretchResult, train } from "./training.js";

const momentum = 0.9;

export interface Run {
  readonly options: Options;
  readonly registry: BackendRegistry;
  readonly backends: readonly BackendListing[];
  readonly training: Digits;
  readonly test: Digits;
  /** The processes that train together. Only the first one saves and draws. */
  readonly communicator: Communicator;
  /** For people. */
  readonly output: Output;
  /** Stops the run, which first releases everything that it holds. */
  readonly signal: AbortSignal;
}

/** Trains and tests as the options say, and leaves nothing behind. */
export async function run(task: Run): Promise<RunResult> {
  const { options, training } = task;
  const start = performance.now();
  const perEpoch = Math.ceil(training.count / options.batch);
  const total = Math.max(1, Math.round(perEpoch * options.epochs));
  const webgpu = task.backends.find((listing) => listing.name === "webgpu");
  const isSoftware = webgpu?.available === true && webgpu.device.software;
  const mostOnWebGpu = isSoftware ? recipes[options.model].softwareSteps : total;
  const stretches = planStretches(options.backend, { perEpoch, total }, mostOnWebGpu);
  await using backend = new SwitchableBackend(task.registry, stretches[0]!.backend);
  await backend.init();
  const outcome = await trainAndTest(task, backend, stretches, isSoftware);
  const freed = backend.memory();
  await backend.dispose();
  const { seed, epochs, batch, model } = options;
  return {
    ...{ mode: options.backend, model, seed, epochs, batch, backends: task.backends },
    ranks: task.communicator.size,
    ...{ stretches: outcome.stretches, readings: outcome.readings, swaps: outcome.swaps, test: outcome.test },
    difference: outcome.difference,
    memory: { training: outcome.memory, freed, disposed: backend.memory() },
    seconds: (performance.now() - start) / 1000,
  };
}

async function trainAndTest(
  task: Run,
  backend: SwitchableBackend,
  plan: readonly Stretch[],
  isSoftware: boolean,
) {
  const { options, output, communicator } = task;
  const { seed, batch, resume } = options;
  const isFirst = communicator.rank === 0;
  // One process is enough to test what all of them have.
  const test = isFirst ? task.test : firstDigits(task.test, 1);
  const save = isFirst ? options.save : undefined;
  const svg = isFirst ? options.svg : undefined;
  const model = createModel(options.model, backend, seed);
  const steps = plan.reduce((sum, stretch) => sum + stretch.steps, 0);
  const rate = linearSchedule({ from: recipes[options.model].rate, steps });
  const optimizer = new Sgd(parametersOf(model).values(), { rate, momentum });
  if (resume !== undefined) {
    const bar = new ProgressBar(output, "load");
    await loadCheckpoint(resume, backend, model, optimizer, options, (done, all) =>
      bar.show(done / all, resume),
    );
  }
  const left = withoutFirst(firstOf(plan, options.stop ?? steps), optimizer.steps);
  const stretches: StretchResult[] = [];
  const readings: Reading[] = [];
  const swaps: SwapReport[] = [];
  const swapped = (report: SwapReport): void => {
    swaps.push(report);
    output.write(`${describeSwap(report)}\n`);
  };
  let bar: ProgressBar | undefined;
  await train(backend, { model, optimizer, digits: task.training, batch, seed, communicator }, left, {
    swapped,
    progressed: async (reading, soFar) => {
      readings.push(reading);
      bar ??= new ProgressBar(output, `train ${soFar.backend}`);
      bar.show(soFar.steps / left[stretches.length]!.steps, describeRate(soFar));
      await breathe(task.signal);
    },
    finished: (result) => {
      stretches.push(result);
      bar = undefined;
    },
  });
  const memory = backend.memory();
  if (save !== undefined) {
    const saving = new ProgressBar(output, "save");
    await saveCheckpoint(save, model, optimizer, options, (done, all) => saving.show(done / all, save));
  }
  optimizer.dispose();
  output.write(`\n${plotLoss(readings, output.columns || 80)}\n\n`);
  if (svg !== undefined) await onDisk(() => writeFile(svg, svgOfLoss(readings)));

  const logits = await testLogits(task, backend, model, test);
  const predicted = predictions(logits);
  const correct = countCorrect(predicted, test.labels);
  let difference: Difference | null = null;
  if (options.backend === "swap") {
    swapped(await backend.use(backend.current === "cpu" ? "webgpu" : "cpu"));
    const compared = firstDigits(test, isSoftware ? recipes[options.model].softwareImages : test.count);
    const others = await testLogits(task, backend, model, compared);
    difference = largestDifference(logits.subarray(0, others.length), others);
  }
  disposeParameters(model);
  output.write(`\n${drawSome(test, predicted, output.columns || 80)}\n\n`);
  return {
    ...{ stretches, readings, swaps, memory, difference },
    test: { images: test.count, correct, accuracy: correct / test.count },
  };
}

async function testLogits(
  { output, signal, options }: Run,
  backend: SwitchableBackend,
  model: Layer,
  test: Digits,
): Promise<Float32Array> {
  const bar = new ProgressBar(output, `test ${backend.current}`);
  const start = performance.now();
  return logitsOf(backend, model, test, options.batch, async (done) => {
    const rate = done / ((performance.now() - start) / 1000);
    bar.show(done / test.count, `${Math.round(rate).toLocaleString("en-US")} images/s`);
    await breathe(signal);
  });
}

/** Lets timers and signals have their turn, and stops if asked to. */
async function breathe(signal: AbortSignal): Promise<void> {
  await setImmediate();
  signal.throwIfAborted();
}

/** The first digits of the test set, and below them the first mistakes. */
function drawSome(test: Digits, predicted: Uint8Array, columns: number): string {
  const all = Array.from(predicted, (digit, index): DrawnDigit => ({ index, predicted: digit }));
  const mistakes = all.filter((digit) => digit.predicted !== test.labels[digit.index]);
  const rows = mistakes.length === 0 ? [all] : [all, mistakes];
  return rows.map((row) => drawDigits(test, row, Math.min(columns, 120))).join("\n\n");
}
