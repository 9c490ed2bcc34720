import type { ComputeBackend } from "@backplane/core";
import { attention, crossEntropy, rmsNorm, rope, type Tensor, tensor } from "@backplane/tensor";
import type { Shape } from "../shape.js";
import type { LayerWeights } from "../weights.js";
import type { Parameters } from "./parameters.js";

/** Additions to products with frozen weights, by the names of the weights. */
export type Adaptation = (name: string, input: Tensor) => Tensor | undefined;

/**
 * The formulas of `Transformer` on tensors, for whole batches of texts of one length, so that there are gradients. Holds the
 * tables of angles for that length.
 */
export class LanguageModel implements Disposable {
  readonly #shape: Shape;
  /** [length, pairs] */
  readonly #cos: Tensor;
  readonly #sin: Tensor;

  constructor(backend: ComputeBackend, shape: Shape, length: number) {
    this.#shape = shape;
    const { frequencies } = shape;
    const table = (of: (angle: number) => number) => {
      const angles = Array.from({ length }, (_, at) => frequencies.map((turn) => of(at * turn))).flat();
      return tensor(backend, Float32Array.from(angles), { shape: [length, frequencies.length] }).keep();
    };
    this.#cos = table(Math.cos);
    this.#sin = table(Math.sin);
  }

  /** The logits after each token of each text: [batch, length, vocabulary] from i32 [batch, length]. */
  logits(parameters: Parameters, tokens: Tensor, adaptation: Adaptation = () => undefined): Tensor {
    const { embedding, layers, finalNorm, classifier = embedding } = parameters;
    let stream = embedding.take(tokens);
    for (const [i, layer] of layers.entries()) {
      const multiply = (name: keyof LayerWeights, input: Tensor): Tensor => {
        const product = input.linear(layer[name].transpose());
        const added = adaptation(`layers.${i}.${name}`, input);
        return added === undefined ? product : product.add(added);
      };
      const attended = this.#attend(multiply("queryKeyValue", this.#normalize(stream, layer.attentionNorm)));
      stream = stream.add(multiply("attentionOutput", attended));
      const gateUp = multiply("gateUp", this.#normalize(stream, layer.feedForwardNorm));
      const [gate, up] = gateUp.chunk(this.#shape.hidden, 2) as [Tensor, Tensor];
      stream = stream.add(multiply("down", gate.silu().mul(up)));
    }
    return this.#normalize(stream, finalNorm).linear(classifier.transpose());
  }

  /** The mean loss, in nats, of what follows each token: `targets` (i32) has the shape of `tokens`. */
  loss(parameters: Parameters, tokens: Tensor, targets: Tensor, adaptation?: Adaptation): Tensor {
    return crossEntropy(this.logits(parameters, tokens, adaptation), targets);
  }

  [Symbol.dispose](): void {
    this.#cos.dispose();
    this.#sin.dispose();
  }

  #normalize(stream: Tensor, weight: Tensor): Tensor {
    return rmsNorm(stream, { weight, epsilon: this.#shape.epsilon });
  }

  /** [batch, length, heads headSize] from [batch, length, (heads + 2 kvHeads) headSize] */
  #attend(queryKeyValue: Tensor): Tensor {
    const { heads, kvHeads, headSize, window } = this.#shape;
    const [batch, length] = queryKeyValue.shape as [number, number];
    // [batch, heads, length, headSize]
    const part = (first: number, count: number) =>
      queryKeyValue
        .slice(2, [first * headSize, (first + count) * headSize])
        .reshape(batch, length, count, headSize)
        .permute(0, 2, 1, 3);
    const queries = this.#turn(part(0, heads));
    const keys = this.#turn(part(heads, kvHeads));
    const attended = attention(queries, keys, part(heads + kvHeads, kvHeads), { causal: true, window });
    return attended.permute(0, 2, 1, 3).reshape(batch, length, heads * headSize);
  }

  #turn(rows: Tensor): Tensor {
    return rope(rows, this.#cos, this.#sin, { kind: "neighbours" });
  }
}
