import { listed, refuse } from "../errors.js";
import { type Shape, sizeOf } from "./shape.js";
import { TensorView } from "./tensor-view.js";

/** One tile of a partition. */
export interface TileInfo {
  /** Its place among the tiles, along each axis. */
  readonly index: readonly number[];
  /** Its first element in the whole. */
  readonly start: readonly number[];
  /** Its extents, which are smaller at the far edges if the tiles do not fit. */
  readonly shape: Shape;
  /** Whether it is smaller than others. */
  readonly isEdge: boolean;
  /** Its elements. */
  readonly view: TensorView;
}

/** A view divided into tiles, each of which is a view. Those at the far edges hold what is left. */
export class PartitionView implements Iterable<TileInfo> {
  readonly whole: TensorView;
  /** Extents of a tile inside. */
  readonly tileShape: Shape;
  /** Tiles along each axis. */
  readonly grid: Shape;

  constructor(whole: TensorView, tileShape: Shape) {
    const fits =
      tileShape.length === whole.rank &&
      tileShape.every((extent) => Number.isSafeInteger(extent) && extent >= 1);
    if (!fits)
      refuse(
        "PartitionView",
        "tileShape",
        `is ${listed(tileShape)}; allowed: a whole number from 1 for each axis of ${listed(whole.shape)}`,
      );
    this.whole = whole;
    this.tileShape = tileShape;
    this.grid = whole.shape.map((extent, axis) => Math.ceil(extent / tileShape[axis]!));
  }

  /** Tiles whose extents are powers of two: the smallest that hold the whole axis, but none larger than `largest`. */
  static powersOfTwo(whole: TensorView, largest: number): PartitionView {
    if (!Number.isSafeInteger(largest) || largest < 1)
      refuse("PartitionView", "largest", `is ${largest}; allowed: whole numbers from 1`);
    const most = 2 ** Math.floor(Math.log2(largest));
    const extents = whole.shape.map((extent) =>
      Math.min(most, 2 ** Math.ceil(Math.log2(Math.max(extent, 1)))),
    );
    return new PartitionView(whole, extents);
  }

  /** Number of tiles. */
  get count(): number {
    return sizeOf(this.grid);
  }

  tile(index: readonly number[]): TileInfo {
    const isInside =
      index.length === this.grid.length &&
      index.every((at, axis) => Number.isInteger(at) && at >= 0 && at < this.grid[axis]!);
    if (!isInside)
      refuse(
        "tile",
        "index",
        `is ${listed(index)}; allowed: places in a grid of ${listed(this.grid)}`,
        "OUT_OF_BOUNDS",
      );
    const start = index.map((at, axis) => at * this.tileShape[axis]!);
    let view = this.whole;
    for (const [axis, from] of start.entries())
      view = view.slice(axis, { start: from, end: from + this.tileShape[axis]! });
    const isEdge = view.shape.some((extent, axis) => extent < this.tileShape[axis]!);
    return { index, start, shape: view.shape, isEdge, view };
  }

  /** All tiles, row by row. */
  *[Symbol.iterator](): Generator<TileInfo, void> {
    const places = new TensorView(this.grid);
    for (const place of places.indices()) {
      let rest = place;
      yield this.tile(
        places.strides.map((stride) => {
          const at = Math.floor(rest / stride);
          rest -= at * stride;
          return at;
        }),
      );
    }
  }
}
