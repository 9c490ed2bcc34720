import type { ComputeBackend } from "@backplane/core";
import { type Tensor, tensor, zeros } from "@backplane/tensor";
import { ADAPTER_KEY, type AdapterSizes, adaptedNames } from "../adapter.js";
import type { Random } from "../random.js";
import type { Shape } from "../shape.js";
import { layerShapes } from "../weights.js";
import type { Adaptation } from "./language-model.js";

/** Matrices of low rank that are added to frozen ones: W + scale up down. At first up is 0, so that nothing changes. */
export class LoraParameters {
  readonly sizes: AdapterSizes;
  /** By name, such as `layers.0.down.up`. */
  readonly tensors: ReadonlyMap<string, Tensor>;

  constructor(backend: ComputeBackend, shape: Shape, sizes: AdapterSizes, random: Random) {
    this.sizes = sizes;
    const { rank } = sizes;
    const made = new Map<string, Tensor>();
    const shapes = layerShapes(shape);
    for (let i = 0; i < shape.layers; i++)
      for (const part of adaptedNames) {
        const [rows, columns] = shapes[part];
        const values = Float32Array.from(
          { length: rank * columns },
          () => random.normal() / Math.sqrt(columns),
        );
        const down = tensor(backend, values, { shape: [rank, columns] });
        made.set(`layers.${i}.${part}.down`, down.keep());
        made.set(`layers.${i}.${part}.up`, zeros(backend, [rows, rank]).keep());
      }
    this.tensors = made;
  }

  readonly adaptation: Adaptation = (name, input) => {
    const [down, up] = [this.tensors.get(`${name}.down`), this.tensors.get(`${name}.up`)];
    if (down === undefined || up === undefined) return undefined;
    return input.linear(down.transpose()).linear(up.transpose()).mul(this.sizes.scale);
  };

  /** Goes on from an adapter of the same sizes: takes over a tensor for each name and shape. */
  assign(take: (name: string, shape: readonly number[]) => Tensor): void {
    for (const [name, tensor] of this.tensors) {
      using saved = take(name, tensor.shape);
      tensor.assign(saved);
    }
  }

  /** What a file says of it. */
  get metadata(): Readonly<Record<string, string>> {
    return { [ADAPTER_KEY]: JSON.stringify(this.sizes) };
  }

  dispose(): void {
    for (const tensor of this.tensors.values()) tensor.dispose();
  }
}
