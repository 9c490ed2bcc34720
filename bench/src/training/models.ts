import type { ComputeBackend } from "@backplane/core";
import {
  Conv2d,
  crossEntropy,
  type Layer,
  Linear,
  maxPool2d,
  parametersOf,
  Random,
  Sgd,
  scope,
  Tape,
  type Tensor,
  tensor,
  valueAndGrad,
} from "@backplane/tensor";

export const batch = 100;
const side = 28;
const classes = 10;

/** Linear layers of 784, 256, 128 and 10, as in examples/digits. */
function mlp(backend: ComputeBackend, random: Random): Layer {
  const sizes = [side * side, 256, 128, classes];
  const layers = sizes.slice(1).map((outputs, i) => new Linear(backend, sizes[i]!, outputs, random));
  const forward = (images: Tensor): Tensor =>
    layers.reduce((x, layer, i) => (i === 0 ? layer.forward(x) : layer.forward(x.relu())), images);
  return Object.assign({ forward }, { layers });
}

/** Two convolutions and two linear layers, as in examples/digits. */
function cnn(backend: ComputeBackend, random: Random): Layer {
  const convolutions = [new Conv2d(backend, 1, 12, 5, random), new Conv2d(backend, 12, 32, 5, random)];
  const layers = [new Linear(backend, 512, 128, random), new Linear(backend, 128, classes, random)] as const;
  const forward = (images: Tensor): Tensor => {
    const features = convolutions.reduce(
      (x, layer) => maxPool2d(layer.forward(x), [2, 2]).relu(),
      images.reshape(batch, 1, side, side),
    );
    return layers[1].forward(layers[0].forward(features.flatten(1)).relu());
  };
  return Object.assign({ forward }, { convolutions, layers });
}

export const models = { mlp, cnn } as const;

export type ModelName = keyof typeof models;

/** A model that is trained on the same hundred images again and again. */
export interface Trainee {
  /** Operations that the tape records in a step. */
  readonly recorded: number;
  /** Does a step, without waiting for it. */
  step(): void;
  /** Waits. */
  loss(): Promise<number>;
}

export function trainee(name: ModelName, backend: ComputeBackend): Trainee {
  const random = new Random(1);
  const model = models[name](backend, random);
  // Pixels that any two machines draw alike.
  const pixels = Uint8Array.from(
    { length: batch * side * side },
    (_, i) => (Math.imul(i, 0x9e3779b1) >>> 16) & 255,
  );
  const labels = Int32Array.from({ length: batch }, (_, i) => i % classes);
  const lossOf = (): Tensor => {
    const images = tensor(backend, pixels, { shape: [batch, side * side] }).cast("f32");
    return crossEntropy(model.forward(images.mul(1 / 255)), tensor(backend, labels));
  };
  const optimizer = new Sgd(parametersOf(model).values(), { rate: 0.01, momentum: 0.9 });
  const both = valueAndGrad(lossOf, { at: optimizer.parameters });
  using tape = new Tape(optimizer.parameters);
  scope(() => tape.record(lossOf));
  const recorded = tape.length;
  return {
    recorded,
    step: () => scope(() => optimizer.step(both().gradients)),
    loss: async () => {
      using loss = scope(lossOf);
      return await loss.item();
    },
  };
}
