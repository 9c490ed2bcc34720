// Tags: kernels, pure
import { type IntegerType, integerTypes, type ReduceKind } from "@backplane/core";
import { assert } from "chai";
import { reduce } from "#src/kernels/reduce/index.js";
import { type Pattern, pattern, patterns, places, product } from "./shapes.js";
import { decode, noise, random, withDevice } from "./support.js";

const arrays = { i32: Int32Array, u32: Uint32Array } as const;

/** Storing the result into an array wraps it around. */
const folds = {
  sum: (a: number, b: number) => a + b,
  prod: Math.imul,
  max: Math.max,
  min: Math.min,
} as const;
type Kind = keyof typeof folds;
const kinds = Object.keys(folds) as Kind[];

type Integers = Int32Array | Uint32Array;

/** Of all of the range: sums wrap around again and again. */
function numbers(dtype: IntegerType, count: number): Integers {
  const next = random(count);
  return arrays[dtype].from(Array.from({ length: count }, () => next() * Number.MAX_SAFE_INTEGER));
}

function expected(kind: Kind, dtype: IntegerType, values: Integers, { kept, reduced }: Pattern): Integers {
  const within = places(reduced);
  const total = arrays[dtype].of(0);
  return arrays[dtype].from(
    places(kept).map((base) => {
      total[0] = values[base]!;
      for (const place of within.slice(1)) total[0] = folds[kind](total[0], values[base + place]!);
      return total[0];
    }),
  );
}

for (const tier of ["baseline", "subgroups"] as const)
  describe(`webgpu reduce of integers in the tier ${tier}`, () => {
    const device = withDevice({ tier });

    async function check(
      kind: Kind,
      dtype: IntegerType,
      axes: Pattern,
      values: Integers,
      offset: number,
    ): Promise<void> {
      const [outputCount, reducedCount] = [product(axes.kept), product(axes.reduced)];
      const input = device().place(values, dtype, offset);
      const byteLength = 4 * outputCount;
      const before = noise(offset + byteLength + 32);
      const memory = device().upload(before);
      const output = { memory, byteOffset: offset, byteLength };
      device().run("reduce", { dtype, kind, ...axes, outputCount, reducedCount, input, output });
      const after = await device().download(memory, 0, before.length);
      const results = decode(after.subarray(offset, offset + byteLength), dtype);
      after.set(before.subarray(offset, offset + byteLength), offset);
      assert.deepEqual(after, before, "other bytes changed");
      assert.deepEqual(
        results,
        expected(kind, dtype, values, axes),
        `${kind}, ${offset} bytes into the buffers`,
      );
      for (const region of [input, output]) device().driver.free(region.memory);
    }

    for (const dtype of integerTypes)
      for (const axes of patterns) {
        const text = (list: Pattern["kept"]) =>
          list.map(({ extent, stride }) => `${extent}:${stride}`).join(" ");
        it(`keeps [${text(axes.kept)}] and reduces [${text(axes.reduced)}] in ${dtype}`, async () => {
          const values = numbers(dtype, product(axes.kept) * product(axes.reduced));
          for (const kind of kinds)
            for (const offset of [0, 4]) await check(kind, dtype, axes, values, offset);
        });
      }

    it("finds the extreme anywhere, where all elements lie on one side of zero", async () => {
      for (const dtype of integerTypes)
        for (const n of [2, 3, 4, 5, 7, 8, 31, 64, 65, 257, 1030])
          for (const [kind, extreme] of [
            ["max", -1], // the largest u32
            ["min", 3],
            ["sum", 2 ** 31 - 1],
          ] as const) {
            const values = arrays[dtype].from(
              Array.from({ length: 3 * n }, (_, i) => (kind === "max" ? i - 2 ** 31 : i + 5)),
            );
            values[(5 * n) >> 1] = extreme;
            for (const axes of [pattern(-3 * n), pattern(-n, 3), pattern(3, -n)])
              await check(kind, dtype, axes, values, 0);
          }
    });
  });

describe("webgpu reduce of integers", () => {
  it("has these kinds and no others", () => {
    for (const dtype of integerTypes) {
      const taken = reduce.supports.filter((support) => (support.dtype as readonly string[]).includes(dtype));
      assert.deepEqual(
        taken.flatMap(({ kind }) => kind as ReduceKind[]),
        kinds,
      );
    }
  });
});
