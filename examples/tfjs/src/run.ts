import { type Digits, pixels, side } from "@backplane/example-digits/data.js";
import { type Output, ProgressBar } from "@backplane/example-digits/progress.js";
import type { Registration } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import * as tfl from "@tensorflow/tfjs-layers";

const batchSize = 100;
const classes = 10;

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

/** Two convolutions, with pooling between them, and a layer for the ten digits. */
export function newModel(): tfl.LayersModel {
  const kernelInitializer = (seed: number) => tfl.initializers.glorotUniform({ seed });
  const model = tfl.sequential({
    layers: [
      tfl.layers.conv2d({
        ...{ inputShape: [side, side, 1], filters: 8, kernelSize: 5, strides: 2, activation: "relu" },
        kernelInitializer: kernelInitializer(1),
      }),
      tfl.layers.maxPooling2d({ poolSize: 2 }),
      tfl.layers.conv2d({
        ...{ filters: 16, kernelSize: 3, activation: "relu", kernelInitializer: kernelInitializer(2) },
      }),
      tfl.layers.flatten(),
      tfl.layers.dense({ units: classes, activation: "softmax", kernelInitializer: kernelInitializer(3) }),
    ],
  });
  model.compile({ optimizer: tf.train.adam(0.002), loss: "categoricalCrossentropy" });
  return model;
}

function imagesOf({ images }: Digits, count: number): tf.Tensor4D {
  const values = Float32Array.from(images.subarray(0, count * pixels), (byte) => byte / 255);
  return tf.tensor4d(values, [count, side, side, 1]);
}

function labelsOf({ labels }: Digits, count: number): tf.Tensor {
  return tf.tidy(() =>
    tf.cast(tf.oneHot(tf.tensor1d(Int32Array.from(labels.subarray(0, count)), "int32"), classes), "float32"),
  );
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
  const tested = Math.min(test.count, 2000);
  const [pictures, answers] = [imagesOf(test, tested), labelsOf(test, tested)];
  const right = tf.tidy(() => {
    const found = tf.argMax(model.predict(pictures) as tf.Tensor, 1);
    return tf.mean(tf.cast(tf.equal(found, tf.argMax(answers, 1)), "float32"));
  });
  const [accuracy] = await right.data();
  tf.dispose([inputs, targets, pictures, answers, right]);
  model.optimizer.dispose();
  model.dispose();
  return { accuracy: accuracy!, stages: finished, loss };
}
