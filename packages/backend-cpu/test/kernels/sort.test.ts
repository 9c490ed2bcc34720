// Tags: kernels, pure
import { dtypeBytes, type SortProblem } from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { capacityFor } from "#src/kernels/sort/first.wasm.js";
import { leastCapacities, pieceElements, sort } from "#src/kernels/sort/index.js";
import { insertedLength } from "#src/kernels/sort/records.wasm.js";
import { codecs } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, uploadBits } from "./problems.js";

type Extents = readonly [outer: number, length: number, inner: number];
type SortType = SortProblem<unknown>["dtype"];

/** Around insertion and digits; as many chunks as workers and more, of one line and of several. */
const shapes: readonly Extents[] = [
  ...[1, 2, 3, insertedLength - 1, insertedLength, insertedLength + 1, 255, 257, 3000].map(
    (length): Extents => [3, length, 1],
  ),
  [1, 70_001, 1],
  [2, 9000, 1],
  [5, 9000, 1],
  [40, 700, 1],
  [3, 40, 7],
  [2, 300, 65],
];

describeEitherWay("sort kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(sort.kernels, { ...options, pages: 1024, workers: 3 });
  });

  /** Compares places, which say all, and values by them. */
  function check(
    dtype: SortType,
    [outer, length, inner]: Extents,
    descending: boolean,
    count: number,
    data: number[],
  ) {
    const { encode, decode } = codecs[dtype];
    const bits = encode(data);
    const numbers = decode(bits.slice().buffer);
    const lines = outer * inner;
    const values = guardedBytes(bench, lines * count * dtypeBytes[dtype], dtypeBytes[dtype]);
    const indices = guardedBytes(bench, lines * count * 4, 4);
    const problem: SortProblem<CpuMemory> = {
      ...{ dtype, outer, length, inner, descending, count, input: uploadBits(bench, bits) },
      ...{ values: values.region, indices: indices.region },
    };
    // Records that no chunk has written would come first.
    const workspace = (bytes: number) => {
      const at = bench.context.workspace(bytes);
      new Uint8Array(bench.memory.buffer, at, bytes).fill(0);
      return at;
    };
    bench.run(sort.plan(problem, { ...bench.context, workspace }));
    const [gotValues, gotPlaces] = [decode(values.read()), new Int32Array(indices.read())];
    const label = `${dtype} [${outer}, ${length}, ${inner}] ${descending} ${count}`;
    for (let line = 0; line < lines; line++) {
      const [o, i] = [Math.floor(line / inner), line % inner];
      const at = (j: number) => numbers[(o * length + j) * inner + i]!;
      const order = Array.from({ length }, (_, j) => j).sort((a, b) => {
        const [x, y] = [at(a), at(b)];
        if (Number.isNaN(x) || Number.isNaN(y))
          return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
        return x === y ? a - b : (x < y ? -1 : 1) * (descending ? -1 : 1);
      });
      for (let j = 0; j < count; j++) {
        const to = (o * count + j) * inner + i;
        if (gotPlaces[to] !== order[j])
          expect(gotPlaces[to], `${label}: place ${j} of line ${line}`).to.equal(order[j]);
        if (!Object.is(gotValues[to], at(order[j]!)))
          expect(gotValues[to], `${label}: ${to}`).to.equal(at(order[j]!));
      }
    }
  }

  it("keep equal elements in order, in all types, and as many as are wanted", () => {
    for (const [index, shape] of shapes.entries()) {
      const [outer, length, inner] = shape;
      const random = randomNumbers(length);
      const span = length < 100 ? 5 : 1000;
      const data = Array.from({ length: outer * length * inner }, () => Math.floor(random() * span));
      for (const [i, dtype] of (["f32", "f16", "i32", "u32"] as const).entries()) {
        const signed = dtype === "u32" ? data : data.map((x) => x - 2);
        const count = (index + i) % 3 === 0 ? length : Math.ceil(length / 2);
        check(dtype, shape, (index + i) % 2 === 0, count, signed);
      }
    }
  });

  /** Data for places of a line: with few or no equal elements, in either order, and NaN up to the last few. */
  const fills: Readonly<Record<string, (j: number, length: number, random: number) => number>> = {
    random: (_, __, random) => Math.floor(random * 60_000),
    few: (_, __, random) => Math.floor(random * 3),
    rising: (j, length) => Math.floor((60_000 * j) / length),
    falling: (j, length) => 60_000 - Math.floor((60_000 * j) / length),
    nan: (j, length, random) => (j > length - 20 ? Math.floor(random * 9) : NaN),
  };

  function checkFilled(dtype: SortType, shape: Extents, descending: boolean, count: number, name: string) {
    const [outer, length, inner] = shape;
    const random = randomNumbers(length);
    const place = (k: number) => Math.floor(k / inner) % length;
    const size = outer * length * inner;
    // Both halves of each type's numbers.
    const spread = (x: number) => (dtype === "u32" ? 70_000 * x : x - 30_000);
    const data = Array.from({ length: size }, (_, k) => spread(fills[name]!(place(k), length, random())));
    check(dtype, shape, descending, count, data);
  }

  it("find the first elements, at the thresholds between the ways of doing it", () => {
    const least = leastCapacities * capacityFor(40);
    const cases: readonly (readonly [Extents, number])[] = [
      ...[-1, 0, 1, 15, 17].map((more) => [[2, least + more, 1], 40] as const),
      [[1, least + 40, 1], 1],
      [[2, leastCapacities * capacityFor(300) + 5, 1], 300],
      [[1, 3000, 3], 33],
    ];
    for (const [i, [shape, count]] of cases.entries())
      for (const [k, dtype] of (["f32", "f16", "i32", "u32"] as const).entries())
        for (const [n, name] of Object.keys(fills).entries())
          if (name !== "nan" || k < 2) checkFilled(dtype, shape, (i + k + n) % 2 === 0, count, name);
  });

  it("divide lines among workers", () => {
    const names = Object.keys(fills);
    const length = 3 * pieceElements + 7;
    for (const [n, name] of names.entries()) {
      checkFilled(n % 2 === 0 ? "f32" : "f16", [1, length, 1], n % 3 === 0, 50, name);
      checkFilled(n % 2 === 0 ? "f16" : "f32", [1, length, 1], n % 3 > 0, length, name);
    }
    // The last piece has fewer elements than are wanted.
    checkFilled("i32", [1, 5 * pieceElements + 7, 1], true, 10_000, "random");
  });

  it("divide a line among workers just if it is long", () => {
    for (const more of [-1, 0, 1])
      for (const count of [20, pieceElements])
        checkFilled("u32", [1, 2 * pieceElements + more, 1], more === 0, count, "random");
    checkFilled("i32", [1, 2 * pieceElements + 3, 2], true, pieceElements, "few");
    checkFilled("i32", [1, 2 * pieceElements + 3, 2], true, 20, "few");
  });

  it("order the ends of every type, zeros as equal, and NaN last", () => {
    const floats = [
      0,
      -0,
      1,
      -1,
      Infinity,
      -Infinity,
      NaN,
      2 ** -24,
      -(2 ** -24),
      65_504,
      -65_504,
      0,
      -0,
      NaN,
    ];
    const integers = [0, 1, -1, 2 ** 31 - 1, -(2 ** 31), 255, 256, -256, 65_536];
    for (const repeats of [1, 9])
      for (const descending of [false, true]) {
        const many = (values: readonly number[]) => Array.from({ length: repeats }, () => values).flat();
        const run = (dtype: SortType, values: number[]) =>
          check(dtype, [1, values.length, 1], descending, values.length, values);
        run("f32", many([...floats, 2 ** -149, -3e38, 3e38]));
        run("f16", many(floats));
        run("i32", many(integers));
        run("u32", many(integers.map((x) => x >>> 0)));
      }
  });
});

describe("sort on threads", () => {
  it("gives the same bytes with 0 and 3 threads", async () => {
    const results: Buffer[] = [];
    for (const threads of [0, 3]) {
      const backend = createCpuBackend({ threads });
      await backend.init();
      const random = randomNumbers(7);
      const data = Float32Array.from({ length: 3 * pieceElements }, () => Math.floor(random() * 5000));
      const [input, values, indices] = [0, 0, 0].map(() => backend.alloc(data.byteLength)) as [
        never,
        never,
        never,
      ];
      backend.copyHtoD(input, data);
      const parts: Buffer[] = [];
      for (const [shape, count] of [
        [[2, 60_000], 60_000],
        [[600, 200], 200],
        [[1, data.length], data.length],
        [[1, data.length], 40],
        [[64, 3000], 40],
      ] as const) {
        backend.sort({ shape, count, input, values, indices });
        for (const handle of [values, indices]) {
          const bytes = Buffer.alloc(data.byteLength);
          await backend.copyDtoH(bytes, handle);
          parts.push(bytes);
        }
      }
      await backend.dispose();
      results.push(Buffer.concat(parts));
    }
    expect(results[0]!.equals(results[1]!)).to.equal(true);
  });
});
