import * as tf from "@tensorflow/tfjs-core";
import * as tfl from "@tensorflow/tfjs-layers";

/* Models of tfjs-layers, with data to train them on. All numbers come from seeds. */

/** Numbers in [0, 1) from a seed: the generator of Park and Miller (1988). */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

export interface Example {
  readonly model: tfl.LayersModel;
  readonly inputs: tf.Tensor;
  readonly targets: tf.Tensor;
}

const samples = 20;

function classesOf(next: () => number, classes: number): tf.Tensor {
  const labels = Int32Array.from({ length: samples }, () => Math.floor(next() * classes));
  return tf.tidy(() => tf.cast(tf.oneHot(tf.tensor1d(labels, "int32"), classes), "float32"));
}

function dataOf(next: () => number, shape: readonly number[]): tf.Tensor {
  const size = shape.reduce((a, b) => a * b, samples);
  return tf.tensor(
    Float32Array.from({ length: size }, () => next() - 0.5),
    [samples, ...shape],
  );
}

const initial = (seed: number) => tfl.initializers.glorotUniform({ seed });

export const examples: Readonly<Record<string, () => Example>> = {
  "a multi-layer perceptron": () => {
    const next = numbers(1);
    const model = tfl.sequential({
      layers: [
        tfl.layers.dense({ units: 16, activation: "tanh", inputShape: [8], kernelInitializer: initial(1) }),
        tfl.layers.batchNormalization(),
        tfl.layers.dense({ units: 3, activation: "softmax", kernelInitializer: initial(2) }),
      ],
    });
    model.compile({ optimizer: tf.train.adam(0.01), loss: "categoricalCrossentropy" });
    return { model, inputs: dataOf(next, [8]), targets: classesOf(next, 3) };
  },
  "a convolutional network": () => {
    const next = numbers(2);
    const model = tfl.sequential({
      layers: [
        tfl.layers.conv2d({
          ...{ filters: 4, kernelSize: 3, activation: "relu", inputShape: [10, 10, 2] },
          ...{ padding: "same", kernelInitializer: initial(3) },
        }),
        tfl.layers.maxPooling2d({ poolSize: 2 }),
        tfl.layers.depthwiseConv2d({ kernelSize: 3, padding: "same", depthwiseInitializer: initial(4) }),
        tfl.layers.averagePooling2d({ poolSize: 2 }),
        tfl.layers.flatten(),
        tfl.layers.dense({ units: 3, activation: "softmax", kernelInitializer: initial(5) }),
      ],
    });
    model.compile({ optimizer: tf.train.sgd(0.1), loss: "categoricalCrossentropy" });
    return { model, inputs: dataOf(next, [10, 10, 2]), targets: classesOf(next, 3) };
  },
  "an LSTM": () => {
    const next = numbers(3);
    const model = tfl.sequential({
      layers: [
        tfl.layers.lstm({
          ...{ units: 6, inputShape: [5, 4], kernelInitializer: initial(6) },
          recurrentInitializer: initial(7),
        }),
        tfl.layers.dense({ units: 1, kernelInitializer: initial(8) }),
      ],
    });
    model.compile({ optimizer: tf.train.rmsprop(0.01), loss: "meanSquaredError" });
    return { model, inputs: dataOf(next, [5, 4]), targets: dataOf(next, [1]) };
  },
};

/** Trains for 20 steps, and returns the losses, and what the model then predicts. `between` runs after each epoch. */
export async function train(
  make: () => Example,
  between: (epoch: number) => unknown = () => {},
): Promise<{ readonly losses: readonly number[]; readonly predictions: Float32Array }> {
  const { model, inputs, targets } = make();
  const losses: number[] = [];
  await model.fit(inputs, targets, {
    ...{ epochs: 10, batchSize: samples / 2, shuffle: false, verbose: 0 },
    callbacks: {
      onBatchEnd: (_, logs) => {
        losses.push(logs!.loss as number);
      },
      onEpochEnd: async (epoch) => {
        await between(epoch);
      },
    },
  });
  const predicted = model.predict(inputs) as tf.Tensor;
  const predictions = (await predicted.data()) as Float32Array;
  predicted.dispose();
  inputs.dispose();
  targets.dispose();
  model.optimizer.dispose();
  model.dispose();
  return { losses, predictions };
}
