import type { ComputeBackend } from "@backplane/core";
import { type Tensor, tensor, zeros } from "@backplane/tensor";
import { save } from "@backplane/tensor/node";
import { ADAPTER_KEY, type AdapterSizes, adaptedNames } from "../adapter.js";
import type { Random } from "../random.js";
import type { Shape } from "../shape.js";
import type { Adaptation } from "./language-model.js";
import { parameterShapes } from "./parameters.js";

/** Matrices of low rank that are added to frozen ones: W + scale up down. At first up is 0, so that nothing changes. */
export class LoraParameters {
  readonly sizes: AdapterSizes;
  /** By name, such as `layers.0.down.up`. */
  readonly tensors: ReadonlyMap<string, Tensor>;

  constructor(backend: ComputeBackend, shape: Shape, sizes: AdapterSizes, random: Random) {
    this.sizes = sizes;
    const { rank } = sizes;
    const made = new Map<string, Tensor>();
    const shapes = parameterShapes(shape);
    for (let i = 0; i < shape.layers; i++)
      for (const part of adaptedNames) {
        const [rows, columns] = shapes[part] as [number, number];
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

  save(path: string): Promise<void> {
    return save(path, this.tensors, { metadata: { [ADAPTER_KEY]: JSON.stringify(this.sizes) } });
  }

  dispose(): void {
    for (const tensor of this.tensors.values()) tensor.dispose();
  }
}
