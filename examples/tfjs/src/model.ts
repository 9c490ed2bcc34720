import { classes, type Digits, pixels, side } from "@backplane/example-digits/digits.js";
import * as tf from "@tensorflow/tfjs-core";
import * as tfl from "@tensorflow/tfjs-layers";

export const batchSize = 100;

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

/** The first images, as [count, side, side, 1] from 0 to 1. */
export function imagesOf({ images }: Digits, count: number): tf.Tensor4D {
  const values = Float32Array.from(images.subarray(0, count * pixels), (byte) => byte / 255);
  return tf.tensor4d(values, [count, side, side, 1]);
}

/** The first labels, as [count, classes] with a 1 for the digit. */
export function labelsOf({ labels }: Digits, count: number): tf.Tensor {
  return tf.tidy(() =>
    tf.cast(tf.oneHot(tf.tensor1d(Int32Array.from(labels.subarray(0, count)), "int32"), classes), "float32"),
  );
}

/** The share of the first `most` images that the model recognizes, from 0 to 1. */
export async function accuracyOf(model: tfl.LayersModel, digits: Digits, most: number): Promise<number> {
  const count = Math.min(digits.count, most);
  const right = tf.tidy(() => {
    const found = tf.argMax(model.predict(imagesOf(digits, count)) as tf.Tensor, 1);
    const answers = tf.argMax(labelsOf(digits, count), 1);
    return tf.mean(tf.cast(tf.equal(found, answers), "float32"));
  });
  const [accuracy] = await right.data();
  right.dispose();
  return accuracy!;
}
