import {
  type Axis,
  costOf,
  numberReduceKinds,
  type ReduceArguments,
  type ReduceKind,
  reduceIdentity,
} from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: ReduceArguments = { kind: "sum", shape: [2, 3, 4], input: place(1), output: place(2) };

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("reduce", { ...plain, ...change }), argument);
}

/** All offsets that a list of axes reaches, the last axis running fastest. */
function offsets(axes: readonly Axis[]): number[] {
  return axes.reduce(
    (outer, { extent, stride }) =>
      outer.flatMap((offset) => Array.from({ length: extent }, (_, i) => offset + i * stride)),
    [0],
  );
}

/** For each output in order, the input elements that it is made of, straight from the definition. */
function sources(shape: readonly number[], isReduced: readonly boolean[]): number[][] {
  const groups = new Map<string, number[]>();
  const count = shape.reduce((a, b) => a * b, 1);
  for (let i = 0; i < count; i++) {
    let rest = i;
    const index = shape.map(() => 0);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index[axis] = rest % shape[axis]!;
      rest = Math.floor(rest / shape[axis]!);
    }
    const key = index.filter((_, axis) => !isReduced[axis]).join();
    groups.set(key, [...(groups.get(key) ?? []), i]);
  }
  return [...groups.values()];
}

describe("reduce descriptor", () => {
  it("merges axes into ones that reach the same elements in the same order, alternating", () => {
    const extents = [1, 2, 3];
    const shapes = [[], ...extents.map((x) => [x])];
    for (const x of extents)
      for (const y of extents) {
        shapes.push([x, y]);
        for (const z of extents) {
          shapes.push([x, y, z]);
          for (const w of extents) shapes.push([x, y, z, w]);
        }
      }
    for (const shape of shapes)
      for (let mask = 0; mask < 2 ** shape.length; mask++) {
        const isReduced = shape.map((_, axis) => (mask & (1 << axis)) !== 0);
        const axes = shape.flatMap((_, axis) => (isReduced[axis] ? [axis] : []));
        const problem = problemOf("reduce", { ...plain, shape, axes });
        const got = offsets(problem.kept).map((base) =>
          offsets(problem.reduced).map((offset) => base + offset),
        );
        assert.deepEqual(got, sources(shape, isReduced), JSON.stringify({ shape, axes }));
        assert.equal(problem.outputCount, got.length);
        assert.equal(problem.reducedCount, got[0]!.length);
        const strides = [...problem.kept, ...problem.reduced].map(({ stride }) => stride);
        assert.equal(new Set(strides).size, strides.length);
        const merged = [...problem.kept.map((axis) => ({ axis, from: "kept" }))]
          .concat(problem.reduced.map((axis) => ({ axis, from: "reduced" })))
          .sort((x, y) => y.axis.stride - x.axis.stride);
        for (const [i, { axis, from }] of merged.entries()) {
          assert.isAbove(axis.extent, 1);
          if (i > 0) assert.notEqual(from, merged[i - 1]!.from, "kept and reduced axes alternate");
        }
      }
  });

  it("reduces over everything by default and takes negative axes", () => {
    assert.deepInclude(problemOf("reduce", plain), { outputCount: 1, reducedCount: 24 });
    const last = problemOf("reduce", { ...plain, axes: [-1] });
    assert.deepEqual(last.kept, [{ extent: 6, stride: 4 }]);
    assert.deepEqual(last.reduced, [{ extent: 4, stride: 1 }]);
    assert.equal(last.input.byteLength, 96);
    assert.equal(last.output.byteLength, 24);
    const copied = problemOf("reduce", { ...plain, axes: [] });
    assert.deepEqual(copied.reduced, []);
    assert.deepEqual(copied.kept, [{ extent: 24, stride: 1 }]);
  });

  it("refuses bad kinds, shapes and axes", () => {
    refuses({ kind: "median" }, "kind");
    refuses({ kind: undefined }, "kind");
    refuses({ shape: 24 }, "shape");
    refuses({ shape: [2, -3, 4] }, "shape[1]");
    refuses({ shape: [2, 3, 0.5] }, "shape[2]");
    refuses({ shape: [2 ** 30, 2 ** 30] }, "shape");
    refuses({ axes: 1 }, "axes");
    refuses({ axes: null }, "axes");
    refuses({ axes: [3] }, "axes[0]");
    refuses({ axes: [0, -4] }, "axes[1]");
    refuses({ axes: [0.5] }, "axes[0]");
    for (const axis of ["1", 1n, -1n, Symbol("1"), Object.create(null), null, [0]])
      refuses({ axes: [axis] }, "axes[0]");
    refuses({ axes: [1, 1] }, "axes[1]");
    refuses({ axes: [1, -2] }, "axes[1]");
    refuses({ shape: [], axes: [0] }, "axes[0]");
    refuses({ dtype: "f64" }, "dtype");
  });

  it("refuses lists with holes", () => {
    refuses({ shape: new Array(2) }, "shape[0]");
    refuses({ axes: new Array(1) }, "axes[0]");
  });

  it("refuses an output that shares bytes with the input", () => {
    refuses({ output: place(1) }, "output");
    refuses({ output: slice(1, 92) }, "output");
    refuses({ axes: [], output: place(1) }, "output");
    assert.isDefined(problemOf("reduce", { ...plain, output: slice(1, 96) }));
  });

  it("gives the identity over an empty axis, and nothing where nothing is kept", () => {
    for (const kind of numberReduceKinds) {
      const { problem, fills } = resolve("reduce", { ...plain, kind, shape: [3, 0], axes: [1] });
      assert.isUndefined(problem);
      assert.lengthOf(fills, 1);
      assert.deepEqual(fills[0]!.value, reduceIdentity[kind]);
      assert.equal(fills[0]!.region.byteLength, 12);
      assert.lengthOf(resolve("reduce", { ...plain, kind, shape: [0] }).fills, 1);
    }
    assert.deepEqual(reduceIdentity, {
      ...{ sum: 0, mean: NaN, max: -Infinity, min: Infinity, prod: 1 },
      ...{ logSumExp: -Infinity, any: 0, all: 1 },
    });
    assert.deepEqual(resolve("reduce", { ...plain, shape: [3, 0], axes: [0] }), {
      problem: undefined,
      fills: [],
    });
  });

  it("gives the identity of truth values in bytes", () => {
    for (const [kind, identity] of [
      ["any", 0],
      ["all", 1],
    ] as const) {
      const { problem, fills } = resolve("reduce", {
        ...{ ...plain, kind, shape: [3, 0], axes: [1], dtype: "u8" },
      });
      assert.isUndefined(problem);
      assert.deepEqual(
        fills.map(({ value, dtype, region }) => [value, dtype, region.byteLength]),
        [[identity, "u8", 3]],
      );
    }
  });

  it("gives integers their own identities", () => {
    const identity = (kind: ReduceKind, dtype: "i32" | "u32") =>
      resolve("reduce", { kind, shape: [0], input: place(1), output: place(2), dtype }).fills[0]!.value;
    for (const [kind, signed, unsigned] of [
      ["sum", 0, 0],
      ["prod", 1, 1],
      ["max", -(2 ** 31), 0],
      ["min", 2 ** 31 - 1, 2 ** 32 - 1],
    ] as const)
      assert.deepEqual([identity(kind, "i32"), identity(kind, "u32")], [signed, unsigned], kind);
  });

  it("counts flops and bytes", () => {
    assert.deepEqual(costOf("reduce", { ...plain, axes: [1], dtype: "f16" }), { flops: 24, bytes: 48 + 16 });
  });
});
