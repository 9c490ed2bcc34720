import {
  type BinaryArguments,
  type BinaryInput,
  binaryKinds,
  costOf,
  isComparison,
  type UnaryArguments,
  unaryKinds,
} from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plainUnary: UnaryArguments = { kind: "exp", n: 6, input: place(1), output: place(2) };
const plainBinary: BinaryArguments = {
  ...{ kind: "add", a: place(1), b: place(2), output: place(3) },
  ...{ shapeA: [2, 3], shapeB: [2, 3] },
};

describe("unary descriptor", () => {
  const refuses = (change: object, argument: string) =>
    throws("INVALID_ARGUMENT", () => resolve("unary", { ...plainUnary, ...change }), argument);

  it("makes a problem of n elements", () => {
    assert.deepEqual(problemOf("unary", { ...plainUnary, dtype: "f16" }), {
      ...{ dtype: "f16", kind: "exp", n: 6 },
      input: { memory: 1, byteOffset: 0, byteLength: 12 },
      output: { memory: 2, byteOffset: 0, byteLength: 12 },
    });
    for (const kind of unaryKinds) assert.equal(problemOf("unary", { ...plainUnary, kind }).kind, kind);
    assert.include(unaryKinds, "expm1");
    assert.isUndefined(resolve("unary", { ...plainUnary, n: 0 }).problem);
  });

  it("refuses bad kinds, sizes and element types", () => {
    for (const kind of ["Exp", "", undefined, 0, "toString"]) refuses({ kind }, "kind");
    for (const n of [-1, 0.5, undefined, null, "6", 2 ** 53]) refuses({ n }, "n");
    for (const dtype of ["f64", 1]) refuses({ dtype }, "dtype");
  });

  it("may write exactly over its input, but not partly", () => {
    assert.isDefined(problemOf("unary", { ...plainUnary, output: place(1) }));
    assert.isDefined(problemOf("unary", { ...plainUnary, input: slice(1, 8), output: slice(1, 8) }));
    for (const byteOffset of [4, 20]) {
      refuses({ output: slice(1, byteOffset) }, "output");
      refuses({ input: slice(2, byteOffset) }, "output");
    }
    assert.isDefined(problemOf("unary", { ...plainUnary, output: slice(1, 24) }));
  });

  it("tests into bytes, and never in place", () => {
    const tested = { ...plainUnary, kind: "isNaN" } as const;
    assert.equal(problemOf("unary", tested).output.byteLength, 6);
    refuses({ ...tested, output: place(1) }, "output");
    assert.equal(problemOf("unary", { ...plainUnary, kind: "logicalNot", dtype: "u8" }).output.byteLength, 6);
    assert.equal(problemOf("unary", { ...plainUnary, kind: "not", dtype: "i32" }).output.byteLength, 24);
  });

  it("counts flops and bytes", () => {
    assert.deepEqual(costOf("unary", plainUnary), { flops: 6, bytes: 48 });
  });
});

/** The input element for each output element, as a kernel reads the problem. */
function reads(shape: readonly number[], input: BinaryInput<number>): number[] {
  assert.isTrue("strides" in input);
  const { strides } = input as { strides: readonly number[] };
  assert.equal(strides.length, shape.length);
  return shape.reduce(
    (outer, extent, axis) =>
      outer.flatMap((offset) => Array.from({ length: extent }, (_, i) => offset + i * strides[axis]!)),
    [0],
  );
}

/** NumPy's broadcasting, straight from its definition; undefined where it refuses. */
function broadcastShape(a: readonly number[], b: readonly number[]): number[] | undefined {
  const rank = Math.max(a.length, b.length);
  const shape: number[] = [];
  for (let axis = 0; axis < rank; axis++) {
    const x = a[axis - rank + a.length] ?? 1;
    const y = b[axis - rank + b.length] ?? 1;
    if (x !== y && x !== 1 && y !== 1) return undefined;
    shape.push(x === 1 ? y : x);
  }
  return shape;
}

function broadcastReads(shape: readonly number[], of: readonly number[]): number[] {
  const count = shape.reduce((x, y) => x * y, 1);
  return Array.from({ length: count }, (_, i) => {
    let rest = i;
    let offset = 0;
    let step = 1;
    for (let back = 1; back <= shape.length; back++) {
      const extent = shape[shape.length - back]!;
      const own = of[of.length - back] ?? 1;
      offset += (own === 1 ? 0 : rest % extent) * step;
      step *= own;
      rest = Math.floor(rest / extent);
    }
    return offset;
  });
}

describe("binary descriptor", () => {
  const refuses = (change: object, argument: string) =>
    throws("INVALID_ARGUMENT", () => resolve("binary", { ...plainBinary, ...change }), argument);
  const withoutShapes = (({ shapeA: _a, shapeB: _b, ...rest }) => rest)(plainBinary);

  it("broadcasts all pairs of shapes up to rank 3 as NumPy does", () => {
    const extents = [0, 1, 2, 3];
    const shapes: number[][] = [[], ...extents.map((x) => [x])];
    for (const x of extents)
      for (const y of extents) {
        shapes.push([x, y]);
        for (const z of extents) shapes.push([x, y, z]);
      }
    for (const shapeA of shapes)
      for (const shapeB of shapes) {
        const args = { ...plainBinary, shapeA, shapeB };
        const expected = broadcastShape(shapeA, shapeB);
        if (expected === undefined) {
          throws("INVALID_ARGUMENT", () => resolve("binary", args), "shapeB");
          continue;
        }
        const { problem } = resolve("binary", { ...args, outputShape: expected });
        if (expected.includes(0)) {
          assert.isUndefined(problem);
          continue;
        }
        assert.isDefined(problem);
        const { shape, a, b, n } = problem!;
        const message = JSON.stringify({ shapeA, shapeB, shape });
        assert.deepEqual(reads(shape, a), broadcastReads(expected, shapeA), message);
        assert.deepEqual(reads(shape, b), broadcastReads(expected, shapeB), message);
        assert.equal(n, broadcastReads(expected, shapeA).length);
        assert.isFalse(shape.includes(1), message);
        // Merged as far as possible: no neighbours that both inputs walk as one.
        const strides = [a, b].map((input) => ("strides" in input ? input.strides : []));
        for (let axis = 1; axis < shape.length; axis++)
          assert.isFalse(
            strides.every((of) => of[axis - 1] === of[axis]! * shape[axis]!),
            message,
          );
      }
  });

  it("sees one axis where nothing is broadcast", () => {
    const { shape, a, b } = problemOf("binary", {
      ...plainBinary,
      shapeA: [4, 1, 5, 6],
      shapeB: [4, 1, 5, 6],
    });
    assert.deepEqual(shape, [120]);
    assert.deepInclude(a, { strides: [1] });
    assert.deepInclude(b, { strides: [1] });
  });

  it("takes n in place of shapes", () => {
    const problem = problemOf("binary", { ...withoutShapes, n: 5 });
    assert.deepInclude(problem, { n: 5, shape: [5] });
    assert.equal(problem.output.byteLength, 20);
    assert.deepEqual(problemOf("binary", { ...withoutShapes, n: 1 }).shape, []);
    assert.isUndefined(resolve("binary", { ...withoutShapes, n: 0 }).problem);
    const large = [2 ** 30, 2 ** 30, 0];
    assert.isUndefined(resolve("binary", { ...plainBinary, shapeA: large, shapeB: large }).problem);
  });

  it("takes a scalar on either side, rounded to f32", () => {
    for (const dtype of ["f32", "f16"] as const) {
      const left = problemOf("binary", { ...withoutShapes, n: 4, a: { scalar: 0.1 }, dtype });
      assert.deepEqual(left.a, { scalar: Math.fround(0.1) });
      const right = problemOf("binary", { ...plainBinary, shapeB: undefined!, b: { scalar: -2 }, dtype });
      assert.deepEqual(right.b, { scalar: -2 });
      assert.deepEqual(right.shape, [6]);
    }
    refuses({ ...withoutShapes, n: 4, a: { scalar: 1 }, b: { scalar: 2 } }, "b");
    for (const scalar of [Number.NaN, Infinity, "1", undefined])
      throws(
        "INVALID_ARGUMENT",
        () => resolve("binary", { ...withoutShapes, n: 4, a: { scalar: scalar as number } }),
        "a.scalar",
      );
    throws("INVALID_ARGUMENT", () => resolve("binary", { ...plainBinary, a: { scalar: 1 } }), "shapeA");
  });

  it("refuses contradictions between n, shapes and the output shape", () => {
    refuses({ n: 6 }, "n");
    refuses({ shapeA: undefined }, "shapeA");
    refuses({ shapeB: 6 }, "shapeB");
    refuses({ shapeA: [2, -3] }, "shapeA[1]");
    refuses({ shapeA: [2 ** 30, 2 ** 30], shapeB: [1] }, "outputShape");
    refuses({ outputShape: [3, 2] }, "outputShape");
    refuses({ outputShape: [6] }, "outputShape");
    refuses({ kind: "atan3" }, "kind");
    refuses({ dtype: "f8" }, "dtype");
    for (const n of [-1, 0.5, "6", null])
      throws("INVALID_ARGUMENT", () => resolve("binary", { ...withoutShapes, n: n as number }));
    for (const kind of binaryKinds) assert.equal(problemOf("binary", { ...plainBinary, kind }).kind, kind);
  });

  it("may write exactly over an input as large as the output, but not otherwise", () => {
    assert.isDefined(problemOf("binary", { ...plainBinary, output: place(1) }));
    assert.isDefined(problemOf("binary", { ...plainBinary, output: place(2) }));
    assert.isDefined(problemOf("binary", { ...plainBinary, b: place(1), output: place(1) }));
    refuses({ output: slice(1, 4) }, "output");
    refuses({ output: slice(2, 20) }, "output");
    refuses({ shapeA: [3], output: place(1) }, "output");
    refuses({ shapeA: [1], output: place(1) }, "output");
    refuses({ shapeB: [2, 1], output: slice(2, 0) }, "output");
    assert.isDefined(problemOf("binary", { ...plainBinary, shapeA: [1, 2, 3], output: place(1) }));
  });

  it("takes truth values, which are bytes", () => {
    const args = { ...plainBinary, kind: "logicalAnd", dtype: "u8" } as const;
    assert.equal(problemOf("binary", args).output.byteLength, 6);
    assert.isDefined(problemOf("binary", { ...args, output: place(1) }));
    const scalar = { ...withoutShapes, kind: "logicalOr", dtype: "u8", n: 6, b: { scalar: 255 } } as const;
    assert.deepEqual(problemOf("binary", scalar).b, { scalar: 255 });
    throws("INVALID_ARGUMENT", () => resolve("binary", { ...scalar, b: { scalar: 256 } }), "b.scalar");
  });

  it("compares into bytes, and never in place", () => {
    const problem = problemOf("binary", { ...plainBinary, kind: "less", dtype: "i32" });
    assert.equal(problem.output.byteLength, 6);
    assert.deepInclude(problem.a, { region: { memory: 1, byteOffset: 0, byteLength: 24 } });
    assert.deepInclude(problem, { kind: "less", dtype: "i32", n: 6 });
    throws("INVALID_ARGUMENT", () => resolve("binary", { ...plainBinary, kind: "equal", output: place(1) }));
    for (const kind of binaryKinds)
      assert.equal(
        problemOf("binary", { ...plainBinary, kind }).output.byteLength,
        isComparison(kind) ? 6 : 24,
        kind,
      );
  });

  it("takes scalars that are elements of the type", () => {
    const given = { kind: "add", n: 6, a: place(1), output: place(3) } as const;
    const scalarOf = (scalar: number, dtype: "i32" | "u32") =>
      problemOf("binary", { ...given, b: { scalar }, dtype }).b;
    assert.deepEqual(scalarOf(16777217, "i32"), { scalar: 16777217 });
    assert.deepEqual(scalarOf(-(2 ** 31), "i32"), { scalar: -(2 ** 31) });
    assert.deepEqual(scalarOf(2 ** 32 - 1, "u32"), { scalar: 2 ** 32 - 1 });
    assert.deepEqual(scalarOf(-0, "i32"), { scalar: 0 });
    for (const [scalar, dtype] of [
      [0.5, "i32"],
      [2 ** 31, "i32"],
      [-1, "u32"],
      [Number.NaN, "u32"],
    ] as const)
      throws("INVALID_ARGUMENT", () => scalarOf(scalar, dtype), "b.scalar");
  });

  it("counts each input element once", () => {
    assert.deepEqual(costOf("binary", plainBinary), { flops: 6, bytes: 72 });
    assert.deepEqual(costOf("binary", { ...plainBinary, shapeB: [3], dtype: "f16" }), {
      flops: 6,
      bytes: 12 + 6 + 12,
    });
    assert.deepEqual(costOf("binary", { ...withoutShapes, n: 4, b: { scalar: 1 } }), { flops: 4, bytes: 32 });
  });
});
