import { type FunctionBuilder, i32, type Local, type Value } from "../../wasm/index.js";

/** One axis to be walked along: how many places, and how far apart in each of several operands. */
export interface WalkedAxis {
  readonly extent: Value<"i32">;
  /** Bytes per step, one for each offset of the odometer. */
  readonly steps: readonly Value<"i32">[];
}

/**
 * Walks over the places of a box, the last axis moving fastest, and keeps the byte offset of the
 * place in each of several operands. Axes that are not in use have extent 1.
 */
export class Odometer {
  readonly #f: FunctionBuilder;
  readonly #axes: readonly WalkedAxis[];
  /** The place along each axis. */
  readonly counters: readonly Local<"i32">[];
  readonly offsets: readonly Local<"i32">[];

  constructor(f: FunctionBuilder, axes: readonly WalkedAxis[], operands: number) {
    this.#f = f;
    this.#axes = axes;
    this.counters = axes.map(() => f.local("i32"));
    this.offsets = Array.from({ length: operands }, () => f.local("i32"));
  }

  /** Goes to the place with this index; `index` is used up. */
  seek(index: Local<"i32">): void {
    const f = this.#f;
    for (const offset of this.offsets) f.set(offset, 0);
    for (let axis = this.#axes.length - 1; axis >= 0; axis--) {
      const { extent, steps } = this.#axes[axis]!;
      const counter = this.counters[axis]!;
      f.set(counter, 0);
      // Most axes are not in use: a branch is cheaper than two divisions.
      f.if(i32.gtU(extent, 1), () => {
        f.set(counter, i32.remU(index, extent));
        f.set(index, i32.divU(index, extent));
        for (const [i, offset] of this.offsets.entries()) f.add(offset, i32.mul(counter, steps[i]!));
      });
    }
  }

  /** Moves to the next place. */
  next(): void {
    this.#advance(this.#axes.length - 1);
  }

  #advance(axis: number): void {
    const entry = this.#axes[axis];
    if (entry === undefined) return;
    const f = this.#f;
    const counter = this.counters[axis]!;
    f.add(counter, 1);
    for (const [i, offset] of this.offsets.entries()) f.add(offset, entry.steps[i]!);
    f.if(i32.geU(counter, entry.extent), () => {
      f.set(counter, 0);
      for (const [i, offset] of this.offsets.entries())
        f.set(offset, i32.sub(offset, i32.mul(entry.steps[i]!, entry.extent)));
      this.#advance(axis - 1);
    });
  }
}
