import { unaryFunctions } from "@backplane/conformance/functions";
import { grad, type Shape, setFusion, type Tensor, TensorView, tensor, where } from "@backplane/tensor";
import { assert } from "chai";
import fc from "fast-check";
import { onCpu } from "./support.js";

const bench = onCpu();

/** Functions whose values and slopes stay small, however they are nested. */
const smooth = ["tanh", "sigmoid", "sin", "cos", "softplus", "atan", "asinh", "erf", "gelu", "silu"] as const;

/** A node of a graph, on earlier nodes. Leaves come first. */
type Node =
  | { readonly leaf: Shape; readonly values: readonly number[] }
  | { readonly unary: (typeof smooth)[number]; readonly x: number }
  | { readonly binary: "add" | "sub" | "mul" | "select"; readonly a: number; readonly b: number }
  | { readonly mean: number; readonly axis: 0 | 1 }
  | { readonly transposed: number }
  | { readonly product: number };

const shapes: readonly Shape[] = [[2, 3], [3], [2, 1], [], [1, 3]];

const leaf = fc.nat(shapes.length - 1).chain((i) => {
  const length = shapes[i]!.reduce((a, b) => a * b, 1);
  const number = fc.integer({ min: -12, max: 12 }).map((n) => n / 8 + 1 / 16);
  return fc
    .array(number, { minLength: length, maxLength: length })
    .map((values): Node => ({ leaf: shapes[i]!, values }));
});

/** Nodes name earlier ones by a number that is taken modulo how many there are. */
const inner = fc.oneof(
  fc.record({ unary: fc.constantFrom(...smooth), x: fc.nat() }),
  fc.record({ binary: fc.constantFrom("add", "sub", "mul", "select"), a: fc.nat(), b: fc.nat() }),
  fc.record({ mean: fc.nat(), axis: fc.constantFrom(0, 1) }),
  fc.record({ transposed: fc.nat() }),
  fc.record({ product: fc.nat() }),
) as fc.Arbitrary<Node>;

const graph = fc
  .tuple(fc.array(leaf, { minLength: 1, maxLength: 3 }), fc.array(inner, { minLength: 1, maxLength: 10 }))
  .map(([leaves, nodes]) => [...leaves, ...nodes]);

/** How a graph is evaluated on one kind of arrays. */
interface Algebra<Value> {
  unary(kind: (typeof smooth)[number], x: Value): Value;
  binary(kind: "add" | "sub" | "mul" | "select", a: Value, b: Value): Value;
  /** Along one of the last two axes, of those that there are; the axis stays with extent 1. */
  mean(x: Value, axis: number): Value;
  /** The last two axes exchanged and back again, with a sine in between. */
  transposed(x: Value): Value;
  /** x^T x / 4 as a mean: of x with two axes. */
  product(x: Value): Value;
  total(x: Value): Value;
  shape(x: Value): Shape;
}

function evaluate<Value>(nodes: readonly Node[], leaves: readonly Value[], on: Algebra<Value>): Value {
  const values: Value[] = [...leaves];
  const at = (n: number): Value => values[n % values.length]!;
  for (const node of nodes.slice(leaves.length)) {
    if ("unary" in node) values.push(on.unary(node.unary, at(node.x)));
    else if ("binary" in node) {
      const [a, b] = [at(node.a), at(node.b)];
      values.push(on.binary(node.binary, a, b));
    } else if ("mean" in node) {
      const x = at(node.mean);
      const rank = on.shape(x).length;
      values.push(rank > node.axis ? on.mean(x, node.axis) : x);
    } else if ("transposed" in node) {
      const x = at(node.transposed);
      values.push(on.shape(x).length === 2 ? on.transposed(x) : x);
    } else if ("product" in node) {
      const x = at(node.product);
      values.push(on.shape(x).length === 2 ? on.product(x) : x);
    }
  }
  return values.map((value) => on.total(value)).reduce((a, b) => on.binary("add", a, b));
}

const onTensors: Algebra<Tensor> = {
  unary: (kind, x) => x.unary(kind),
  binary: (kind, a, b) => {
    if (kind !== "select") return a.binary(kind, b).mul(0.5);
    const bump = a.sub(b).sin().square().mul(0.125);
    // Smooth where both are equal, too.
    return a
      .add(b)
      .mul(0.5)
      .add(where(a.greater(b), bump, 0));
  },
  mean: (x, axis) => x.mean(axis, { keepAxes: true }),
  transposed: (x) => x.transpose().sin().transpose(),
  product: (x) => x.transpose().matmul(x).mean().mul(0.25),
  total: (x) => x.sum(),
  shape: (x) => x.shape,
};

/** The same in double precision. */
interface Doubles {
  readonly shape: Shape;
  readonly values: readonly number[];
}

const onDoubles: Algebra<Doubles> = {
  unary: (kind, { shape, values }) => ({ shape, values: values.map(unaryFunctions[kind]) }),
  binary: (kind, a, b) => {
    const rank = Math.max(a.shape.length, b.shape.length);
    const shape = Array.from({ length: rank }, (_, i) =>
      Math.max(a.shape[a.shape.length - rank + i] ?? 1, b.shape[b.shape.length - rank + i] ?? 1),
    );
    const f = {
      ...{ add: (x: number, y: number) => (x + y) / 2, sub: (x: number, y: number) => (x - y) / 2 },
      ...{
        mul: (x: number, y: number) => (x * y) / 2,
        select: (x: number, y: number) => (x + y) / 2 + (x > y ? Math.sin(x - y) ** 2 / 8 : 0),
      },
    }[kind];
    const spread = (x: Doubles) =>
      [...new TensorView(x.shape).expand(shape).indices()].map((i) => x.values[i]!);
    const [left, right] = [spread(a), spread(b)];
    return { shape, values: left.map((x, i) => f(x, right[i]!)) };
  },
  mean: ({ shape, values }, axis) => {
    const kept = shape.with(axis, 1);
    const sums = new Array<number>(kept.reduce((a, b) => a * b, 1)).fill(0);
    const places = [...new TensorView(kept).expand(shape).indices()];
    for (const [i, place] of places.entries()) sums[place]! += values[i]! / shape[axis]!;
    return { shape: kept, values: sums };
  },
  transposed: ({ shape, values }) => ({ shape, values: values.map(Math.sin) }),
  product: ({ shape: [rows, columns], values }) => {
    let sum = 0;
    for (let i = 0; i < columns!; i++)
      for (let j = 0; j < columns!; j++)
        for (let row = 0; row < rows!; row++)
          sum += values[row * columns! + i]! * values[row * columns! + j]!;
    return { shape: [], values: [sum / (4 * columns! * columns!)] };
  },
  total: ({ values }) => ({ shape: [], values: [values.reduce((a, b) => a + b, 0)] }),
  shape: ({ shape }) => shape,
};

type Leaf = Extract<Node, { readonly leaf: Shape }>;

describe("gradients of random graphs", () => {
  it("are central differences in double precision, and have the same bits with and without fusion", async () => {
    await fc.assert(
      fc.asyncProperty(graph, async (nodes) => {
        const leaves = nodes.filter((node): node is Leaf => "leaf" in node);
        const gradients = async (): Promise<number[][]> => {
          const tensors = leaves.map(({ leaf, values }) => tensor(bench.backend, values, { shape: leaf }));
          const found = grad((...inputs: Tensor[]) => evaluate(nodes, inputs, onTensors))(...tensors);
          const results = await Promise.all(found.map(async (gradient) => Array.from(await gradient.data())));
          for (const made of [...tensors, ...found]) made.dispose();
          return results;
        };
        const fused = await gradients();
        setFusion(false);
        try {
          assert.deepEqual(await gradients(), fused);
        } finally {
          setFusion(true);
        }

        const value = (i: number, j: number, offset: number): number => {
          const moved = leaves.map(({ leaf, values }, k) => ({
            shape: leaf,
            values: k === i ? values.with(j, values[j]! + offset) : values,
          }));
          return evaluate(nodes, moved, onDoubles).values[0]!;
        };
        const step = 1e-5;
        const expected = leaves.map(({ values }, i) =>
          values.map((_, j) => (value(i, j, step) - value(i, j, -step)) / (2 * step)),
        );
        // Values and slopes stay below a few hundred units, and every one of some hundred operations is off by a few of
        // 2^-24 of what it adds up.
        const scale = Math.max(1, ...expected.flat().map(Math.abs));
        for (const [i, row] of expected.entries())
          for (const [j, slope] of row.entries())
            assert.closeTo(fused[i]![j]!, slope, 1e-4 * scale, `leaf ${i}, ${j}`);
      }),
      { numRuns: 120 },
    );
  });
});
