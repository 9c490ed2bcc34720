import { type ConvolutionTile, convolutionTransforms } from "@backplane/core";
import { type FunctionBuilder, f32x4, type Local, shuffle32, type Value } from "../../wasm/index.js";
import { transpose4 } from "../panels/index.js";

type Vector = Local<"v128">;

/** A transform of one axis: a vector for each place, of four tiles or channels. */
export type TransformVectors = (places: readonly Vector[]) => readonly Value<"v128">[];

/** Emits constants at the place of the call: call it before loops. */
type Emitted<Emit> = (f: FunctionBuilder) => Emit;

/** The matrices of core's `ConvolutionTransform`, with their like terms taken together. Each element is rounded at most as often as by the matrix. */
export interface EmittedTransform {
  /** Outputs of a tile along each axis. */
  readonly outputs: number;
  /** Inputs that they meet along it, and products. */
  readonly points: number;
  readonly input: Emitted<TransformVectors>;
  readonly filter: Emitted<TransformVectors>;
  readonly output: Emitted<TransformVectors>;
  /** Returns the inputs of four neighbouring tiles at each place of a tile. `load(i)` are four elements of their row, from i on. */
  readonly spread: (f: FunctionBuilder, load: (element: number) => Value<"v128">) => readonly Vector[];
  /** Returns the outputs of four neighbouring tiles as they lie in a row. */
  readonly gather: (f: FunctionBuilder, outputs: readonly Vector[]) => readonly Vector[];
}

type Two = readonly [Vector, Vector];
type Three = readonly [Vector, Vector, Vector];
type Four = readonly [Vector, Vector, Vector, Vector];
type Six = readonly [Vector, Vector, Vector, Vector, Vector, Vector];

const { add, sub, mul } = f32x4;

/** a + b and a - b */
function both(a: Vector, b: Vector): readonly [Value<"v128">, Value<"v128">] {
  return [add(a, b), sub(a, b)];
}

const transform2x2: EmittedTransform = {
  outputs: 2,
  points: 4,
  input: () => (d) => {
    const [d0, d1, d2, d3] = d as Four;
    return [sub(d0, d2), add(d1, d2), sub(d2, d1), sub(d3, d1)];
  },
  filter(f) {
    const half = f.let(f32x4.const(convolutionTransforms["2x2"].filter[1]![0]!));
    return (g) => {
      const [g0, g1, g2] = g as Three;
      const inner = both(f.let(add(g0, g2)), g1);
      return [g0, ...inner.map((sum) => mul(half, sum)), g2];
    };
  },
  output: () => (m) => {
    const [m0, m1, m2, m3] = m as Four;
    return [add(m0, add(m1, m2)), add(sub(m1, m2), m3)];
  },
  spread(f, load) {
    const [low, high] = [f.let(load(0)), f.let(load(4))];
    const columns = [f.let(shuffle32([0, 2, 4, 6], low, high)), f.let(shuffle32([1, 3, 5, 7], low, high))];
    return [...columns, ...columns.map((next, i) => f.let(shuffle32([1, 2, 3, 4], next, load(8 + i))))];
  },
  gather(f, outputs) {
    const [even, odd] = outputs as Two;
    return [f.let(shuffle32([0, 4, 1, 5], even, odd)), f.let(shuffle32([2, 6, 3, 7], even, odd))];
  },
};

/** For points 0, a, -a, b, -b and infinity, with even and odd powers of a and of b apart. */
const transform4x4: EmittedTransform = {
  outputs: 4,
  points: 6,
  input(f) {
    const { input } = convolutionTransforms["4x4"];
    const constant = (row: number, column: number) => f.let(f32x4.const(input[row]![column]!));
    const [first, third] = [constant(0, 0), constant(0, 2)];
    /** The rows of one point and of its opposite: even - point squared of the other pair, and the point. */
    const inner = [1, 3].map((row) => ({ square: constant(row, 2), point: constant(row, 3) }));
    return (d) => {
      const [d0, d1, d2, d3, d4, d5] = d as Six;
      return [
        f.multiplyAdd(first, d0, f.multiplyAdd(third, d2, d4)),
        ...inner.flatMap(({ square, point }) => {
          const even = f.let(f.multiplyAdd(square, d2, d4));
          const odd = f.let(f.multiplyAdd(square, d1, d3));
          return [f.multiplyAdd(point, odd, even), f.multiplySubtract(point, odd, even)];
        }),
        f.multiplyAdd(first, d1, f.multiplyAdd(third, d3, d5)),
      ];
    };
  },
  filter(f) {
    const { filter } = convolutionTransforms["4x4"];
    const constant = (row: number, column: number) => f.let(f32x4.const(filter[row]![column]!));
    const first = constant(0, 0);
    const inner = [1, 3].map(
      (row) => [0, 1, 2].map((column) => constant(row, column)) as readonly Vector[] as Three,
    );
    return (g) => {
      const [g0, g1, g2] = g as Three;
      return [
        mul(first, g0),
        ...inner.flatMap(([c0, c1, c2]) =>
          both(f.let(f.multiplyAdd(c2, g2, mul(c0, g0))), f.let(mul(c1, g1))),
        ),
        g2,
      ];
    };
  },
  output(f) {
    const { output } = convolutionTransforms["4x4"];
    const constant = (row: number, column: number) => f.let(f32x4.const(output[row]![column]!));
    const powers = [1, 2, 3].map((row) => [constant(row, 1), constant(row, 3)] as const);
    return (m) => {
      const [m0, m1, m2, m3, m4, m5] = m as Six;
      const [evenA, oddA] = both(m1, m2).map((sum) => f.let(sum)) as readonly Vector[] as Two;
      const [evenB, oddB] = both(m3, m4).map((sum) => f.let(sum)) as readonly Vector[] as Two;
      const [first, second, third] = powers as [Two, Two, Two];
      return [
        add(m0, add(evenA, evenB)),
        f.multiplyAdd(first[1], oddB, mul(first[0], oddA)),
        f.multiplyAdd(second[1], evenB, mul(second[0], evenA)),
        f.multiplyAdd(third[0], oddA, f.multiplyAdd(third[1], oddB, m5)),
      ];
    };
  },
  spread(f, load) {
    const rows = [0, 4, 8, 12].map((element) => f.let(load(element)));
    const columns = transpose4(f, rows).map((column) => f.let(column));
    const next = columns.slice(0, 2);
    return [...columns, ...next.map((column, i) => f.let(shuffle32([1, 2, 3, 4], column, load(16 + i))))];
  },
  gather: (f, outputs) => transpose4(f, outputs).map((vector) => f.let(vector)),
};

export const transforms: Readonly<Record<ConvolutionTile, EmittedTransform>> = {
  "2x2": transform2x2,
  "4x4": transform4x4,
};
