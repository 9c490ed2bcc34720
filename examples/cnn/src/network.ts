import {
  type ComputeBackend,
  conv2dOutputShape,
  type DeviceHandle,
  openScope,
  pool2dOutputShape,
  type Scope,
  withScope,
} from "@backplane/core";
import { FileError, type ModelArray } from "./files.js";

/** Pixels along one side of a picture. */
export const side = 28;
export const classes = 10;

/** The arrays of a model file, each with its shape. */
const shapes = {
  "conv1.weight": [8, 1, 5, 5],
  "conv1.bias": [8],
  "conv2.weight": [16, 8, 5, 5],
  "conv2.bias": [16],
  "fc.weight": [256, classes],
  "fc.bias": [classes],
} as const;

type Name = keyof typeof shapes;

/** [count, channels, height, width] */
interface Images {
  readonly shape: readonly [number, number, number, number];
  readonly values: DeviceHandle;
}

/**
 * A convolutional network for digits: two convolutions (5x5, padding 2, relu), each followed by a pool (2x2, then 3x3),
 * and a linear layer. It holds handles and calls the contract, whichever backend computes.
 */
export class Network {
  readonly #backend: ComputeBackend;
  readonly #scope: Scope;
  readonly #weights: Readonly<Record<Name, DeviceHandle>>;

  /** Throws a FileError if an array is missing or has another shape. */
  constructor(backend: ComputeBackend, model: ReadonlyMap<string, ModelArray>) {
    const values = Object.entries(shapes).map(
      ([name, shape]) => [name, checked(model, name, shape)] as const,
    );
    this.#backend = backend;
    this.#scope = openScope(backend);
    this.#weights = Object.fromEntries(
      values.map(([name, array]) => [name, this.#scope.upload(array)]),
    ) as Record<Name, DeviceHandle>;
  }

  /**
   * Returns the logits of pictures, `pictures.length` x 10, in the order of the pictures.
   *
   * @param between runs in the middle, after the convolutions: there a program may swap the backend
   */
  classify(pictures: readonly Float32Array[], between?: () => Promise<void>): Promise<Float32Array> {
    return withScope(this.#backend, async (scope) => {
      const backend = this.#backend;
      const count = pictures.length;
      const n = count * side * side;
      const input = scope.alloc(4 * n);
      for (const [i, pixels] of pictures.entries())
        backend.copyHtoD({ handle: input, byteOffset: i * pixels.byteLength }, pixels);
      backend.binary({ kind: "div", n, a: input, b: { scalar: 255 }, output: input });
      const first = this.#layer(scope, "conv1", { shape: [count, 1, side, side], values: input }, 2);
      const second = this.#layer(scope, "conv2", first, 3);
      await between?.();
      const logits = scope.alloc(4 * count * classes);
      backend.gemm({
        ...{ m: count, n: classes, k: shapes["fc.weight"][0] },
        ...{ a: second.values, b: this.#weights["fc.weight"], bias: this.#weights["fc.bias"], c: logits },
      });
      const result = new Float32Array(count * classes);
      await backend.copyDtoH(result, logits);
      return result;
    });
  }

  free(): void {
    this.#scope.dispose();
  }

  /** relu(convolution), then the largest of each window. */
  #layer(scope: Scope, name: "conv1" | "conv2", input: Images, window: number): Images {
    const convolution = {
      ...{ inputShape: input.shape, filterShape: shapes[`${name}.weight`] },
      padding: [2, 2, 2, 2],
    } as const;
    const convolved = imagesOf(scope, conv2dOutputShape(convolution));
    const pool = { inputShape: convolved.shape, kernel: [window, window] } as const;
    const pooled = imagesOf(scope, pool2dOutputShape(pool));
    this.#backend.conv2d({
      ...convolution,
      activation: "relu",
      ...{ filter: this.#weights[`${name}.weight`], bias: this.#weights[`${name}.bias`] },
      ...{ input: input.values, output: convolved.values },
    });
    this.#backend.pool2d({
      ...pool,
      kind: "max",
      ...{ input: convolved.values, output: pooled.values },
    });
    return pooled;
  }
}

function imagesOf(scope: Scope, shape: Images["shape"]): Images {
  return { shape, values: scope.alloc(4 * shape.reduce((a, b) => a * b)) };
}

function checked(
  model: ReadonlyMap<string, ModelArray>,
  name: string,
  shape: readonly number[],
): Float32Array {
  const array = model.get(name);
  if (array === undefined)
    throw new FileError(`It has no array ${name}; it has ${[...model.keys()].join(", ") || "none"}.`);
  if (array.shape.join() !== shape.join())
    throw new FileError(`${name} has shape [${array.shape.join(", ")}]; needed: [${shape.join(", ")}].`);
  return array.values;
}
