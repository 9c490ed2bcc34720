import type { ComputeBackend } from "@backplane/core";
import { Conv2d, type Layer, Linear, maxPool2d, Random, type Tensor } from "@backplane/tensor";
import { classes, pixels, side } from "./data.js";

/** Two hidden layers. */
class Mlp implements Layer {
  readonly layers: readonly Linear[];

  constructor(backend: ComputeBackend, random: Random) {
    const sizes = [pixels, 256, 128, classes];
    this.layers = sizes.slice(1).map((outputs, i) => new Linear(backend, sizes[i]!, outputs, random));
  }

  forward(images: Tensor): Tensor {
    const [last, ...hidden] = [...this.layers].reverse();
    return last!.forward(hidden.reduceRight((x, layer) => layer.forward(x).relu(), images));
  }
}

/** Two convolutions of 5 x 5, each halved by the largest of four, and two layers: nearly LeNet-5 (Y. LeCun et al., 1998). */
class Cnn implements Layer {
  readonly first: Conv2d;
  readonly second: Conv2d;
  readonly hidden: Linear;
  readonly last: Linear;

  constructor(backend: ComputeBackend, random: Random) {
    this.first = new Conv2d(backend, 1, 12, 5, random);
    this.second = new Conv2d(backend, 12, 32, 5, random);
    this.hidden = new Linear(backend, 32 * 4 * 4, 128, random);
    this.last = new Linear(backend, 128, classes, random);
  }

  forward(images: Tensor): Tensor {
    const halved = (x: Tensor): Tensor => maxPool2d(x, [2, 2]).relu();
    const first = halved(this.first.forward(images.reshape(-1, 1, side, side)));
    const features = halved(this.second.forward(first)).flatten(1);
    return this.last.forward(this.hidden.forward(features).relu());
  }
}

export type ModelName = "mlp" | "cnn";

/** How each model is made and trained. */
interface Recipe {
  readonly create: (backend: ComputeBackend, random: Random) => Layer;
  readonly epochs: number;
  /** The learning rate of the first step; it falls evenly to 0. */
  readonly rate: number;
  /** Steps on a WebGPU adapter that is emulated in software: it is there to be seen. */
  readonly softwareSteps: number;
  /** Test images there. */
  readonly softwareImages: number;
}

export const recipes: Readonly<Record<ModelName, Recipe>> = {
  mlp: {
    create: (backend, random) => new Mlp(backend, random),
    epochs: 3,
    rate: 0.1,
    softwareSteps: 60,
    softwareImages: 10_000,
  },
  cnn: {
    create: (backend, random) => new Cnn(backend, random),
    epochs: 5,
    rate: 0.05,
    softwareSteps: 3,
    softwareImages: 200,
  },
};

/** Makes a model with weights that depend on the seed alone. */
export function createModel(name: ModelName, backend: ComputeBackend, seed: number): Layer {
  return recipes[name].create(backend, new Random(seed));
}
