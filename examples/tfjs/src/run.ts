import type { Digits } from "@backplane/example-digits/digits.js";
import { type Output, ProgressBar } from "@backplane/example-digits/progress.js";
import type { Registration } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { accuracyOf, batchSize, imagesOf, labelsOf, newModel } from "./model.js";

/** Images that the model is tested on. */
const tested = 2000;

/** A part of the training, on one backend. */
export interface Stage {
  readonly backend: string;
  readonly steps: number;
}

export interface Result {
  /** Share of the test images that were recognized, from 0 to 1. */
  readonly accuracy: number;
  readonly stages: readonly (Stage & { readonly seconds: number })[];
  readonly loss: number;
}

/** Trains with one call of `fit`, in the middle of which the backend is swapped, and tests the model. */
export async function run(
  registration: Registration,
  stages: readonly Stage[],
  training: Digits,
  test: Digits,
  output: Output,
): Promise<Result> {
  const model = newModel();
  const steps = stages.reduce((sum, stage) => sum + stage.steps, 0);
  const epochs = Math.ceil((steps * batchSize) / training.count);
  const count = Math.min(training.count, steps * batchSize);
  const [inputs, targets] = [imagesOf(training, count), labelsOf(training, count)];
  const finished: Result["stages"][number][] = [];
  let [stage, step, total, loss] = [0, 0, 0, Number.NaN];
  await registration.use(stages[0]!.backend);
  let bar = new ProgressBar(output, registration.current);
  let begun = performance.now();
  await model.fit(inputs, targets, {
    ...{ epochs, batchSize, shuffle: false, verbose: 0, yieldEvery: "never" },
    callbacks: {
      onBatchEnd: async (_, logs) => {
        step++;
        total++;
        loss = logs!.loss as number;
        const current = stages[stage]!;
        bar.show(step / current.steps, `loss ${loss.toFixed(4)}, step ${total} of ${steps}`);
        if (total === steps) model.stopTraining = true;
        if (step < current.steps) return;
        finished.push({ ...current, seconds: (performance.now() - begun) / 1000 });
        const next = stages[++stage];
        if (next === undefined) return;
        // The same tensors, variables and optimizer go on elsewhere.
        await registration.use(next.backend);
        bar = new ProgressBar(output, registration.current);
        [step, begun] = [0, performance.now()];
      },
    },
  });
  const accuracy = await accuracyOf(model, test, tested);
  tf.dispose([inputs, targets]);
  model.optimizer.dispose();
  model.dispose();
  return { accuracy, stages: finished, loss };
}
