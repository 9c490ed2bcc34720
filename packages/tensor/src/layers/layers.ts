import type { ComputeBackend } from "@backplane/core";
import { ones, zeros } from "../creation.js";
import { refuse } from "../errors.js";
import { attention, conv2d, dropout, layerNorm, rmsNorm } from "../functions.js";
import type { Conv2dAttributes } from "../ops/networks.js";
import type { Random } from "../random.js";
import { scope } from "../scope.js";
import type { Tensor } from "../tensor.js";
import type { Shape } from "../view/shape.js";

/** Part of a model: a function with parameters, which are its fields. */
export interface Layer {
  forward(x: Tensor): Tensor;
}

/** Uniform numbers of deviation sqrt(2 / inputs), for relu (K. He et al., "Delving deep into rectifiers", 2015). */
function weights(backend: ComputeBackend, shape: Shape, inputs: number, random: Random): Tensor {
  const bound = Math.sqrt(6 / Math.max(inputs, 1));
  return scope(() =>
    random
      .uniform(backend, shape)
      .mul(2 * bound)
      .sub(bound)
      .compute(),
  ).keep();
}

/** x W + b, with W [inputs, outputs]. */
export class Linear implements Layer {
  readonly weight: Tensor;
  readonly bias: Tensor | undefined;

  constructor(
    backend: ComputeBackend,
    inputs: number,
    outputs: number,
    random: Random,
    { bias = true }: { readonly bias?: boolean } = {},
  ) {
    this.weight = weights(backend, [inputs, outputs], inputs, random);
    this.bias = bias ? zeros(backend, [outputs]).keep() : undefined;
  }

  forward(x: Tensor): Tensor {
    return x.linear(this.weight, this.bias);
  }
}

export interface Conv2dOptions extends Conv2dAttributes {
  readonly bias?: boolean;
}

/** Convolution of images with square filters. */
export class Conv2d implements Layer {
  readonly weight: Tensor;
  readonly bias: Tensor | undefined;
  readonly #options: Conv2dAttributes;

  constructor(
    backend: ComputeBackend,
    channels: number,
    outChannels: number,
    size: number,
    random: Random,
    { bias = true, ...options }: Conv2dOptions = {},
  ) {
    const perGroup = channels / (options.groups ?? 1);
    if (!Number.isInteger(perGroup))
      refuse("Conv2d", "groups", `is ${options.groups}; allowed: divisors of the ${channels} channels`);
    this.weight = weights(backend, [outChannels, perGroup, size, size], perGroup * size * size, random);
    this.bias = bias ? zeros(backend, [outChannels]).keep() : undefined;
    this.#options = options;
  }

  forward(x: Tensor): Tensor {
    return conv2d(x, this.weight, this.bias, this.#options);
  }
}

/** A row of a table for each index (i32). */
export class Embedding implements Layer {
  readonly weight: Tensor;

  constructor(
    backend: ComputeBackend,
    rows: number,
    size: number,
    random: Random,
    { deviation = 0.02 }: { readonly deviation?: number } = {},
  ) {
    this.weight = random.normal(backend, [rows, size], { deviation }).keep();
  }

  forward(indices: Tensor): Tensor {
    return this.weight.take(indices);
  }
}

export class LayerNorm implements Layer {
  readonly weight: Tensor;
  readonly bias: Tensor;
  readonly #epsilon: number;

  constructor(backend: ComputeBackend, size: number, { epsilon = 1e-5 }: { readonly epsilon?: number } = {}) {
    this.weight = ones(backend, [size]).keep();
    this.bias = zeros(backend, [size]).keep();
    this.#epsilon = epsilon;
  }

  forward(x: Tensor): Tensor {
    return layerNorm(x, { weight: this.weight, bias: this.bias, epsilon: this.#epsilon });
  }
}

export class RmsNorm implements Layer {
  readonly weight: Tensor;
  readonly #epsilon: number;

  constructor(backend: ComputeBackend, size: number, { epsilon = 1e-5 }: { readonly epsilon?: number } = {}) {
    this.weight = ones(backend, [size]).keep();
    this.#epsilon = epsilon;
  }

  forward(x: Tensor): Tensor {
    return rmsNorm(x, { weight: this.weight, epsilon: this.#epsilon });
  }
}

export interface AttentionLayerOptions {
  /** Heads of keys and values; a divisor of the heads. Default: as many. */
  readonly kvHeads?: number;
  /** Whether a row sees itself and those before it only. Default: true. */
  readonly causal?: boolean;
}

/** Self-attention of rows [batch, rows, size]: one product for queries, keys and values, and one for the result. */
export class Attention implements Layer {
  readonly queryKeyValue: Linear;
  readonly output: Linear;
  readonly #heads: number;
  readonly #kvHeads: number;
  readonly #causal: boolean;

  constructor(
    backend: ComputeBackend,
    size: number,
    heads: number,
    random: Random,
    options: AttentionLayerOptions = {},
  ) {
    const { kvHeads = heads, causal = true } = options;
    if (size % heads !== 0) refuse("Attention", "heads", `is ${heads}; allowed: divisors of ${size}`);
    if (heads % kvHeads !== 0) refuse("Attention", "kvHeads", `is ${kvHeads}; allowed: divisors of ${heads}`);
    const headSize = size / heads;
    this.queryKeyValue = new Linear(backend, size, (heads + 2 * kvHeads) * headSize, random, { bias: false });
    this.output = new Linear(backend, size, size, random, { bias: false });
    this.#heads = heads;
    this.#kvHeads = kvHeads;
    this.#causal = causal;
  }

  forward(x: Tensor): Tensor {
    return scope(() => {
      const [batch, rows, size] = x.shape as readonly [number, number, number];
      const headSize = size / this.#heads;
      const all = this.queryKeyValue.forward(x).reshape(batch, rows, -1, headSize).transpose(1, 2);
      const keys = this.#heads + this.#kvHeads;
      const q = all.slice(1, [0, this.#heads]);
      const k = all.slice(1, [this.#heads, keys]);
      const v = all.slice(1, [keys]);
      const joined = attention(q, k, v, { causal: this.#causal }).transpose(1, 2).reshape(batch, rows, size);
      return this.output.forward(joined);
    });
  }
}

/** `dropout` while training, and nothing otherwise. */
export class Dropout implements Layer {
  isTraining = true;
  readonly #probability: number;
  readonly #random: Random;

  constructor(probability: number, random: Random) {
    this.#probability = probability;
    this.#random = random;
  }

  forward(x: Tensor): Tensor {
    return this.isTraining && this.#probability > 0 ? dropout(x, this.#probability, this.#random) : x;
  }
}
