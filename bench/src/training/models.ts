import { createCpuBackend } from "@backplane/backend-cpu";
import type { ComputeBackend } from "@backplane/core";
import {
  Conv2d,
  crossEntropy,
  disposeParameters,
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

const models: Readonly<Record<ModelName, (backend: ComputeBackend, random: Random) => Layer>> = { mlp, cnn };

const modelOf = (name: ModelName, backend: ComputeBackend): Layer => models[name](backend, new Random(1));

/** Returns what everybody starts from: the parameters of our layers. */
export async function taskOf(name: ModelName): Promise<Task> {
  await using backend = createCpuBackend({ threads: 0 });
  await backend.init();
  const parameters = [];
  for (const parameter of parametersOf(modelOf(name, backend)).values())
    parameters.push({ shape: parameter.shape, values: Float32Array.from(await parameter.data()) });
  return { model: name, parameters };
}

/** Returns a model on `@backplane/tensor` with the parameters that `taskOf` returns. */
export function trainee(
  name: ModelName,
  backend: ComputeBackend,
): Trainee & {
  /** Operations that the tape records in a step. */
  readonly recorded: number;
} {
  const model = modelOf(name, backend);
  const lossOf = (): Tensor => {
    const images = tensor(backend, pixels, { shape: [batch, side * side] }).cast("f32");
    return crossEntropy(model.forward(images.mul(1 / 255)), tensor(backend, labels));
  };
  const sgd = new Sgd(parametersOf(model).values(), optimizer);
  const both = valueAndGrad(lossOf, { at: sgd.parameters });
  using tape = new Tape(sgd.parameters);
  scope(() => {
    tape.record(lossOf);
  });
  return {
    recorded: tape.length,
    step: () => scope(() => sgd.step(both().gradients)),
    settle: () => backend.synchronize(),
    loss: async () => {
      using loss = scope(lossOf);
      return await loss.item();
    },
    close() {
      sgd.dispose();
      disposeParameters(model);
    },
  };
}
