import type { ComputeBackend } from "@backplane/core";
import { type Tensor, tensor } from "@backplane/tensor";
import type { Shape } from "../shape.js";
import type { LayerParameters, Parameters } from "./parameters.js";

/** Additions to products with frozen weights, by the names of the weights. */
export type Adaptation = (name: string, input: Tensor) => Tensor | undefined;

/** Hides a key: the softmax of it is 0. */
const HIDDEN = Number.NEGATIVE_INFINITY;

/**
 * The formulas of `Transformer` on tensors, for whole batches of texts of one length, so that there are gradients. Holds the
 * constants for texts of that length.
 */
export class LanguageModel implements Disposable {
  readonly length: number;
  readonly #shape: Shape;
  /** [length, headSize] */
  readonly #cos: Tensor;
  readonly #sin: Tensor;
  /** [headSize, headSize]: (x, y) becomes (-y, x) for each pair of neighbours. */
  readonly #quarter: Tensor;
  /** [length, length]: 0, or -Infinity for keys after the query. */
  readonly #mask: Tensor;

  constructor(backend: ComputeBackend, shape: Shape, length: number) {
    this.#shape = shape;
    this.length = length;
    const { headSize, frequencies } = shape;
    // A pair beyond those that turn has no frequency, and an angle of 0.
    const table = (of: (angle: number) => number) =>
      matrix(backend, length, headSize, (position, i) => of(position * (frequencies[i >> 1] ?? 0)));
    this.#cos = table(Math.cos);
    this.#sin = table(Math.sin);
    this.#quarter = matrix(backend, headSize, headSize, (from, to) => {
      if (from >> 1 !== to >> 1 || from === to) return 0;
      return to % 2 === 0 ? -1 : 1;
    });
    this.#mask = matrix(backend, length, length, (query, key) => (key <= query ? 0 : HIDDEN));
  }

  /** The logits after each token of each text: [batch, length, vocabulary] from i32 [batch, length]. */
  logits(parameters: Parameters, tokens: Tensor, adaptation: Adaptation = () => undefined): Tensor {
    const { embedding, layers, finalNorm, classifier = embedding } = parameters;
    let stream = embedding.take(tokens);
    for (const [i, layer] of layers.entries()) {
      const multiply = (name: keyof LayerParameters, input: Tensor): Tensor => {
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
    const logits = this.logits(parameters, tokens, adaptation);
    return logits.logSoftmax().takeAlong(targets.unsqueeze(-1)).mean().neg();
  }

  [Symbol.dispose](): void {
    for (const constant of [this.#cos, this.#sin, this.#quarter, this.#mask]) constant.dispose();
  }

  #normalize(stream: Tensor, weight: Tensor): Tensor {
    const square = stream.square().mean(-1, { keepAxes: true });
    return stream.mul(square.add(this.#shape.epsilon).unary("rsqrt")).mul(weight);
  }

  /** [batch, length, heads headSize] from [batch, length, (heads + 2 kvHeads) headSize] */
  #attend(queryKeyValue: Tensor): Tensor {
    const { heads, kvHeads, headSize } = this.#shape;
    const [batch, length] = queryKeyValue.shape as [number, number];
    const group = heads / kvHeads;
    // [batch, kvHeads, heads of the group, length, headSize]; a group shares its keys and values.
    const part = (first: number, count: number) =>
      queryKeyValue
        .slice(2, [first * headSize, (first + count * kvHeads) * headSize])
        .reshape(batch, length, kvHeads, count, headSize)
        .permute(0, 2, 3, 1, 4);
    const queries = this.#turn(part(0, group));
    const keys = this.#turn(part(heads, 1));
    const values = part(heads + kvHeads, 1);
    const scores = queries.matmul(keys.transpose()).mul(1 / Math.sqrt(headSize));
    const attended = scores.add(this.#mask).softmax().matmul(values);
    return attended.permute(0, 3, 1, 2, 4).reshape(batch, length, heads * headSize);
  }

  #turn(rows: Tensor): Tensor {
    return rows.mul(this.#cos).add(rows.matmul(this.#quarter).mul(this.#sin));
  }
}

function matrix(
  backend: ComputeBackend,
  rows: number,
  columns: number,
  element: (row: number, column: number) => number,
): Tensor {
  const values = Float32Array.from({ length: rows * columns }, (_, i) =>
    element(Math.floor(i / columns), i % columns),
  );
  return tensor(backend, values, { shape: [rows, columns] }).keep();
}
