import { listed, refuse } from "../errors.js";
import {
  axisOf,
  broadcastShapes,
  checkShape,
  contiguousStrides,
  type Shape,
  sameShape,
  sizeOf,
} from "./shape.js";

/** How the elements of a view lie in memory. A view of one row and one column alike is "row". */
export type Layout = "row" | "column" | "strided";

/** Part of an axis: from `start` up to but without `end`. Negative places count from the end of the axis. */
export interface Span {
  /** Default: the first place; with a negative step the last one. */
  readonly start?: number;
  /** Default: behind the last place; with a negative step before the first one. */
  readonly end?: number;
  /** From place to place: not 0. A negative one runs backwards. Default: 1. */
  readonly step?: number;
}

/**
 * How elements of an array are found: element [i, j, ...] is at offset + i strides[0] + j strides[1] + ..., counted in
 * elements. It is a plain description without data. Each method returns another view of the same array.
 */
export class TensorView {
  readonly shape: Shape;
  readonly strides: readonly number[];
  readonly offset: number;

  constructor(shape: Shape, strides: readonly number[] = contiguousStrides(shape), offset = 0) {
    checkShape("TensorView", shape);
    if (strides.length !== shape.length)
      refuse(
        "TensorView",
        "strides",
        `is ${listed(strides)}; allowed: one for each of the axes ${listed(shape)}`,
      );
    this.shape = shape;
    this.strides = strides;
    this.offset = offset;
  }

  /** Number of elements. */
  get size(): number {
    return sizeOf(this.shape);
  }

  get rank(): number {
    return this.shape.length;
  }

  /** Whether the elements follow one another in the order of their places. */
  get isContiguous(): boolean {
    let step = 1;
    for (let i = this.rank - 1; i >= 0; i--) {
      const extent = this.shape[i]!;
      if (extent === 0) return true;
      if (extent === 1) continue;
      if (this.strides[i] !== step) return false;
      step *= extent;
    }
    return true;
  }

  get layout(): Layout {
    if (this.isContiguous) return "row";
    const reversed = Array.from({ length: this.rank }, (_, i) => this.rank - 1 - i);
    return this.permute(reversed).isContiguous ? "column" : "strided";
  }

  /** The place in memory of one element, in elements. */
  indexOf(place: readonly number[]): number {
    if (place.length !== this.rank)
      refuse("indexOf", "place", `is ${listed(place)}; allowed: one number for each of ${this.rank} axes`);
    return place.reduce((index, at, axis) => {
      const extent = this.shape[axis]!;
      const from = at < 0 ? at + extent : at;
      if (!Number.isInteger(at) || from < 0 || from >= extent)
        refuse(
          "indexOf",
          `place[${axis}]`,
          `is ${at}; allowed: ${-extent} to ${extent - 1}`,
          "OUT_OF_BOUNDS",
        );
      return index + from * this.strides[axis]!;
    }, this.offset);
  }

  /** The places in memory of all elements, in the order of their indices. */
  *indices(): Generator<number, void> {
    if (this.size === 0) return;
    const at = new Array<number>(this.rank).fill(0);
    let index = this.offset;
    while (true) {
      yield index;
      let axis = this.rank - 1;
      while (axis >= 0) {
        index += this.strides[axis]!;
        at[axis] = at[axis]! + 1;
        if (at[axis]! < this.shape[axis]!) break;
        index -= this.strides[axis]! * this.shape[axis]!;
        at[axis] = 0;
        axis--;
      }
      if (axis < 0) return;
    }
  }

  /** Part of one axis. Places beyond the axis are left out, as in NumPy. */
  slice(axis: number, { start, end, step = 1 }: Span): TensorView {
    const along = axisOf("slice", axis, this.rank);
    const extent = this.shape[along]!;
    for (const [name, value] of Object.entries({ start, end, step }))
      if (value !== undefined && !Number.isSafeInteger(value))
        refuse("slice", name, `is ${value}; allowed: whole numbers`);
    if (step === 0) refuse("slice", "step", "is 0; allowed: any other whole number");
    const [least, most] = step > 0 ? [0, extent] : [-1, extent - 1];
    const within = (place: number | undefined, otherwise: number): number => {
      if (place === undefined) return otherwise;
      return Math.min(Math.max(place < 0 ? place + extent : place, least), most);
    };
    const first = within(start, step > 0 ? 0 : extent - 1);
    const last = within(end, step > 0 ? extent : -1);
    const count = Math.max(0, Math.ceil((last - first) / step));
    const stride = this.strides[along]!;
    return new TensorView(
      this.shape.with(along, count),
      this.strides.with(along, stride * step),
      this.offset + (count === 0 ? 0 : first * stride),
    );
  }

  /** The axes in another order: axis i of the result is axis order[i] of this one. */
  permute(order: readonly number[]): TensorView {
    const axes = order.map((axis) => axisOf("permute", axis, this.rank, "order"));
    if (axes.length !== this.rank || new Set(axes).size < this.rank)
      refuse("permute", "order", `is ${listed(order)}; allowed: each of the ${this.rank} axes once`);
    return new TensorView(
      axes.map((axis) => this.shape[axis]!),
      axes.map((axis) => this.strides[axis]!),
      this.offset,
    );
  }

  /** Two axes exchanged; the last two unless others are named. */
  transpose(a = -2, b = -1): TensorView {
    const order = Array.from({ length: this.rank }, (_, i) => i);
    const [first, second] = [axisOf("transpose", a, this.rank), axisOf("transpose", b, this.rank)];
    [order[first], order[second]] = [second, first];
    return this.permute(order);
  }

  /** The same elements in another shape; one extent may be -1: it follows from the others. Undefined: only a copy can have it. */
  reshape(shape: Shape): TensorView | undefined {
    const wanted = reshaped(this.shape, shape);
    if (sameShape(wanted, this.shape)) return this;
    if (this.isContiguous) return new TensorView(wanted, contiguousStrides(wanted), this.offset);
    const strides = splitStrides(this.shape, this.strides, wanted);
    return strides === undefined ? undefined : new TensorView(wanted, strides, this.offset);
  }

  /** The elements repeated along axes of extent 1, or along new axes in front. */
  expand(shape: Shape): TensorView {
    checkShape("expand", shape);
    const target = broadcastShapes("expand", this.shape, shape);
    if (!sameShape(target, shape))
      refuse("expand", "shape", `is ${listed(shape)}; allowed: what ${listed(this.shape)} broadcasts to`);
    const added = shape.length - this.rank;
    const strides = shape.map((extent, i) => {
      if (i < added) return 0;
      return this.shape[i - added] === extent ? this.strides[i - added]! : 0;
    });
    return new TensorView(shape, strides, this.offset);
  }

  /** Without axes of extent 1: all of them, or the ones named. */
  squeeze(axes?: number | readonly number[]): TensorView {
    const named =
      axes === undefined
        ? undefined
        : [axes].flat().map((axis) => axisOf("squeeze", axis, this.rank, "axes"));
    for (const axis of named ?? [])
      if (this.shape[axis] !== 1)
        refuse(
          "squeeze",
          "axes",
          `names axis ${axis} of extent ${this.shape[axis]}; allowed: axes of extent 1`,
        );
    const isKept = (axis: number): boolean =>
      named === undefined ? this.shape[axis] !== 1 : !named.includes(axis);
    return new TensorView(
      this.shape.filter((_, axis) => isKept(axis)),
      this.strides.filter((_, axis) => isKept(axis)),
      this.offset,
    );
  }

  /** With another axis of extent 1, before the axis named; -1 adds it at the end. */
  unsqueeze(axis: number): TensorView {
    const place = axisOf("unsqueeze", axis, this.rank + 1);
    return new TensorView(
      this.shape.toSpliced(place, 0, 1),
      this.strides.toSpliced(place, 0, 0),
      this.offset,
    );
  }
}

/** Returns a shape of as many elements, with an extent in the place of -1. */
export function reshaped(from: Shape, to: Shape): Shape {
  const size = sizeOf(from);
  const open = to.indexOf(-1);
  let wanted = to;
  if (open !== -1) {
    const rest = to.reduce((product, extent, i) => (i === open ? product : product * extent), 1);
    wanted = to.with(open, rest === 0 ? 0 : size / rest);
  }
  const isShape = wanted.every((extent) => Number.isSafeInteger(extent) && extent >= 0);
  if (!isShape || sizeOf(wanted) !== size)
    refuse(
      "reshape",
      "shape",
      `is ${listed(to)}; allowed: shapes of the ${size} elements of ${listed(from)}`,
    );
  return checkShape("reshape", wanted);
}

/** The strides of another shape over the same elements; undefined if no strides give their order. */
function splitStrides(from: Shape, strides: readonly number[], to: Shape): readonly number[] | undefined {
  if (sizeOf(to) === 0) return contiguousStrides(to);
  const extents = from.filter((extent) => extent !== 1);
  const steps = strides.filter((_, i) => from[i] !== 1);
  const result = new Array<number>(to.length).fill(0);
  // Takes groups of axes with the same product on both sides, from the last axes on.
  let [i, j] = [extents.length - 1, to.length - 1];
  while (i >= 0) {
    const first = j;
    let own = extents[i]!;
    let other = 1;
    let low = i;
    while (j >= 0 && other < own) other *= to[j--]!;
    while (own !== other) {
      if (own < other) {
        low--;
        if (steps[low] !== steps[low + 1]! * extents[low + 1]!) return undefined;
        own *= extents[low]!;
      } else other *= to[j--]!;
    }
    let step = steps[i]!;
    for (let axis = first; axis > j; axis--) {
      result[axis] = step;
      step *= to[axis]!;
    }
    i = low - 1;
  }
  return result;
}
