// Registers gradients.
import "@tensorflow/tfjs-layers";
import * as tf from "@tensorflow/tfjs-core";
import {
  batch,
  classes,
  labels,
  type ModelName,
  optimizer,
  pixels,
  side,
  type Task,
  type Trainee,
} from "./task.js";

type Variables = readonly tf.Variable[];

/** Trains with TensorFlow.js on one of its registered backends. Its images have their channels last. */
export async function openTfjs(backend: string, { model, parameters }: Task): Promise<Trainee> {
  await tf.setBackend(backend);
  const start = tf.tidy(() => ({
    images: tf.keep(tf.div<tf.Tensor2D>(tf.tensor2d(Float32Array.from(pixels), [batch, side * side]), 255)),
    targets: tf.keep(tf.oneHot(tf.tensor1d(labels, "int32"), classes)),
    variables: parameters.map(({ shape, values }) => {
      const stored = tf.tensor(values, [...shape]);
      return tf.variable(shape.length === 4 ? tf.transpose(stored, [2, 3, 1, 0]) : stored);
    }),
  }));
  const { images, targets, variables } = start;
  const sgd = tf.train.momentum(optimizer.rate, optimizer.momentum);
  const loss = (): tf.Scalar =>
    tf.losses.softmaxCrossEntropy<tf.Tensor2D, tf.Scalar>(
      targets as tf.Tensor2D,
      forwards[model](variables, images),
    );
  return {
    async step() {
      await tf.setBackend(backend);
      sgd.minimize(loss, false, [...variables]);
    },
    async settle() {
      await tf.setBackend(backend);
      // A read of one value: what is enqueued before it is done when it arrives.
      const value = tf.tidy(() => tf.sum(variables.at(-1)!));
      await value.data();
      value.dispose();
    },
    async loss() {
      await tf.setBackend(backend);
      const value = tf.tidy(loss);
      const [number] = await value.data();
      value.dispose();
      return number!;
    },
    async close() {
      await tf.setBackend(backend);
      sgd.dispose();
      tf.dispose([images, targets, ...variables]);
    },
  };
}

const linear = (x: tf.Tensor2D, weight?: tf.Tensor, bias?: tf.Tensor): tf.Tensor2D =>
  tf.add(tf.matMul(x, weight as tf.Tensor2D), bias!);

function features(x: tf.Tensor4D, filter?: tf.Tensor, bias?: tf.Tensor): tf.Tensor4D {
  const sums: tf.Tensor4D = tf.add(tf.conv2d(x, filter as tf.Tensor4D, 1, "valid"), bias!);
  return tf.relu(tf.maxPool(sums, 2, 2, "valid"));
}

/** The models of models.ts. */
const forwards: Readonly<Record<ModelName, (variables: Variables, images: tf.Tensor2D) => tf.Tensor2D>> = {
  mlp: ([w1, b1, w2, b2, w3, b3], images) =>
    linear(tf.relu(linear(tf.relu(linear(images, w1, b1)), w2, b2)), w3, b3),
  cnn([f1, c1, f2, c2, w1, b1, w2, b2], images) {
    const maps = features(features(tf.reshape(images, [batch, side, side, 1]), f1, c1), f2, c2);
    // Weights of the layer that follows are in the order of images whose channels come first.
    const flat = tf.reshape<tf.Rank.R2>(tf.transpose(maps, [0, 3, 1, 2]), [batch, -1]);
    return linear(tf.relu(linear(flat, w1, b1)), w2, b2);
  },
};
