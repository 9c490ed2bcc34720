import { type ComputeBackend, type DeviceHandle, type DeviceSlice, dtypeBytes } from "@backplane/core";
import { Allocations } from "./allocations.js";
import { CrossEntropy } from "./cross-entropy.js";
import type { Batch } from "./data.js";
import { type Blend, Linear, type LinearArrays } from "./linear.js";
import type { Random } from "./random.js";
import { reluBackward } from "./relu.js";

/**
 * A classifier: linear layers with relu between them, softmax cross-entropy at the end. It holds
 * handles and calls the contract, and neither knows nor cares which backend computes.
 */
export class Network {
  /** Of every layer the weights, then the bias, all in one allocation; the gradients likewise. */
  readonly parameters: DeviceHandle;
  readonly gradients: DeviceHandle;
  readonly parameterCount: number;
  /** The most images that go through at once. */
  readonly batch: number;
  readonly classes: number;
  readonly #backend: ComputeBackend;
  readonly #allocations: Allocations;
  readonly #layers: readonly Linear[];
  readonly #loss: CrossEntropy;
  /** Both in u8. */
  readonly #pixels: DeviceHandle;
  readonly #oneHot: DeviceHandle;
  /** The input of each layer, and last the logits: batch x sizes[i]. */
  readonly #activations: readonly DeviceHandle[];
  /** The slope of each image's loss at each activation; undefined for the images. */
  readonly #slopes: readonly (DeviceHandle | undefined)[];
  #rows = 0;

  /** `sizes`: numbers per image, of each hidden layer, and of classes. */
  constructor(backend: ComputeBackend, sizes: readonly number[], batch: number, random: Random) {
    const allocations = new Allocations(backend);
    const shapes = layerShapes(sizes);
    const initial = initialParameters(shapes, random);
    this.#backend = backend;
    this.#allocations = allocations;
    this.batch = batch;
    this.classes = sizes.at(-1)!;
    this.parameterCount = initial.length;
    this.parameters = allocations.copyOf(initial);
    this.gradients = allocations.zeros(initial.length);
    const ones = allocations.copyOf(new Float32Array(batch).fill(1));
    this.#layers = shapes.map((shape) => {
      const [parameters, gradients] = [this.parameters, this.gradients].map((all) => layerArrays(all, shape));
      return new Linear(backend, shape, parameters!, gradients!, ones);
    });
    this.#activations = sizes.map((size) => allocations.zeros(batch * size));
    this.#slopes = sizes.map((size, i) => (i === 0 ? undefined : allocations.zeros(batch * size)));
    this.#pixels = allocations.bytes(batch * sizes[0]!);
    this.#oneHot = allocations.bytes(batch * this.classes);
    this.#loss = new CrossEntropy(backend, allocations, batch, this.classes);
  }

  /** Puts images through the network. */
  forward(batch: Batch): void {
    this.#rows = batch.count;
    this.#backend.copyHtoD(this.#pixels, batch.images);
    this.#backend.map({
      ...{
        shape: [batch.images.length],
        inputs: [this.#pixels],
        inputTypes: ["u8"],
        parameters: [batch.scale],
      },
      ...{ outputs: [this.#activations[0]!], results: [-1] },
      nodes: [{ input: 0 }, { convert: "f32", x: 0 }, { parameter: 0 }, { binary: "mul", a: 1, b: 2 }],
    });
    for (const [i, layer] of this.#layers.entries()) {
      const [input, output] = [this.#activations[i]!, this.#activations[i + 1]!];
      layer.forward(this.#rows, input, output, this.#isLast(i) ? {} : { activation: "relu" });
    }
  }

  /**
   * The gradient of the mean loss at every parameter, for the images last put through, blended with the
   * gradients that are there. By default it takes their place.
   */
  backward(batch: Batch, blend: Blend = { keep: 0, scale: 1 }): void {
    this.#backend.copyHtoD(this.#oneHot, batch.oneHot);
    this.#loss.slope(this.#rows, this.#activations.at(-1)!, this.#oneHot, this.#slopes.at(-1)!);
    for (const [i, layer] of [...this.#layers.entries()].reverse()) {
      const slope = this.#slopes[i + 1]!;
      if (!this.#isLast(i))
        reluBackward(this.#backend, this.#rows * layer.outputs, this.#activations[i + 1]!, slope);
      layer.backward(this.#rows, this.#activations[i]!, slope, this.#slopes[i], blend);
    }
  }

  /** The mean loss of the images last put through and back. Waits for the device: ask now and then. */
  loss(): Promise<number> {
    return this.#loss.loss(this.#rows, this.#oneHot);
  }

  /** Of the images last put through: count x classes. */
  async logits(): Promise<Float32Array> {
    const logits = new Float32Array(this.#rows * this.classes);
    await this.#backend.copyDtoH(logits, this.#activations.at(-1)!);
    return logits;
  }

  free(): void {
    this.#allocations.free();
  }

  #isLast(layer: number): boolean {
    return layer === this.#layers.length - 1;
  }
}

interface LayerShape {
  readonly inputs: number;
  readonly outputs: number;
  /** The start of the layer among all parameters, in elements. */
  readonly start: number;
}

function layerShapes(sizes: readonly number[]): LayerShape[] {
  let start = 0;
  return sizes.slice(1).map((outputs, i) => {
    const shape = { inputs: sizes[i]!, outputs, start };
    start += (shape.inputs + 1) * outputs;
    return shape;
  });
}

/** Slices of one allocation: the weights and the bias of a layer. */
function layerArrays(handle: DeviceHandle, { inputs, outputs, start }: LayerShape): LinearArrays {
  const slice = (element: number): DeviceSlice => ({ handle, byteOffset: element * dtypeBytes.f32 });
  return { weights: slice(start), bias: slice(start + inputs * outputs) };
}

/** Weights of variance 2 / inputs, which relu layers keep in scale (He et al., 2015); biases 0. */
function initialParameters(shapes: readonly LayerShape[], random: Random): Float32Array {
  const { start, inputs, outputs } = shapes.at(-1)!;
  const values = new Float32Array(start + (inputs + 1) * outputs);
  for (const shape of shapes) {
    const deviation = Math.sqrt(2 / shape.inputs);
    const end = shape.start + shape.inputs * shape.outputs;
    for (let i = shape.start; i < end; i++) values[i] = deviation * random.normal();
  }
  return values;
}
