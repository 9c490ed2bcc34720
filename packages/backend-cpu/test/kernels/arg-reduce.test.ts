// Tags: kernels, pure
import { type ArgReduceKind, type ArgReduceProblem, argReduceKinds, type DType } from "@backplane/core";
import { expect } from "chai";
import { argReduce } from "#src/kernels/arg-reduce/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { planSlabs } from "#src/kernels/rows/index.js";
import { types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, uploadBits } from "./problems.js";

type Extents = readonly [outer: number, length: number, inner: number];
type Elements = Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

/** Written without the code under test: the first place that no other beats. */
function reference(kind: ArgReduceKind, x: ArrayLike<number>, [outer, length, inner]: Extents): Int32Array {
  return Int32Array.from({ length: outer * inner }, (_, row) => {
    const first = Math.floor(row / inner) * length * inner + (row % inner);
    const all = Array.from({ length }, (_, j) => x[first + j * inner]!);
    const nan = all.findIndex(Number.isNaN);
    if (nan >= 0) return nan;
    const best = all.reduce((a, b) => (kind === "argMax" ? Math.max(a, b) : Math.min(a, b)));
    return all.indexOf(best);
  });
}

/** Around rounds, vectors, blocks, panels and pieces. */
const shapes: readonly Extents[] = [
  ...[1, 2, 3, 4, 5, 15, 16, 17, 33, 2047, 2048, 2049, 4100].map((length): Extents => [5, length, 1]),
  ...([
    [3000, 7, 1],
    [1, 70_001, 1],
    [3, 40_000, 1],
    [2, 1, 5],
    [3, 8, 1],
  ] as const),
  ...([
    [2, 9, 2],
    [3, 17, 3],
    [1, 31, 513],
    [2, 25, 1030],
    [1, 20_000, 3],
    [300, 20, 17],
  ] as const),
];

describeEitherWay("argReduce kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(argReduce.kernels, { ...options, pages: 1024, workers: 3 });
  });

  function run(
    kind: ArgReduceKind,
    dtype: DType,
    [outer, length, inner]: Extents,
    data: Elements,
  ): Int32Array {
    const input = uploadBits(
      bench,
      data instanceof Float32Array && dtype === "f16" ? types.f16.encode(data) : data,
    );
    const output = guardedBytes(bench, 4 * outer * inner, 4);
    const problem = { kind, dtype, outer, length, inner, input, output: output.region };
    bench.run(argReduce.plan(problem as ArgReduceProblem<CpuMemory>, bench.context));
    return new Int32Array(output.read());
  }

  it("find the first of equal elements, in all types", () => {
    for (const shape of shapes) {
      const [outer, length, inner] = shape;
      const next = randomNumbers(length + inner);
      // Few numbers in most rows, so that many are equal; extremes of the integers in others.
      const draw = () => Math.floor(next() * (length < 100 ? 4 : 300)) - 2;
      const numbers = Array.from({ length: outer * length * inner }, draw);
      for (const kind of argReduceKinds) {
        const floats = Float32Array.from(numbers);
        expect(run(kind, "f32", shape, floats), `f32 [${shape}]`).to.deep.equal(
          reference(kind, floats, shape),
        );
        expect(run(kind, "f16", shape, floats), `f16 [${shape}]`).to.deep.equal(
          reference(kind, floats, shape),
        );
        const wide = numbers.map((x) => (x === 1 ? 2 ** 31 - 1 : x === -2 ? -(2 ** 31) : x));
        const signed = Int32Array.from(wide);
        expect(run(kind, "i32", shape, signed), `i32 [${shape}]`).to.deep.equal(
          reference(kind, signed, shape),
        );
        const unsigned = Uint32Array.from(wide, (x) => x >>> 0);
        expect(run(kind, "u32", shape, unsigned), `u32 [${shape}]`).to.deep.equal(
          reference(kind, unsigned, shape),
        );
      }
    }
  });

  it("find the first NaN, of either sign, and infinities only beside numbers", () => {
    for (const shape of [
      [9, 41, 1],
      [9, 5000, 1],
      [9, 40_000, 1],
      [1, 41, 9],
      [1, 20_000, 9],
    ] as const) {
      const [, length, inner] = shape;
      for (const kind of argReduceKinds) {
        const data = new Float32Array(9 * length);
        const bits = new Uint32Array(data.buffer);
        const at = (row: number, j: number) => (inner === 1 ? row * length + j : j * inner + row);
        for (let i = 0; i < data.length; i++) data[i] = i % 5;
        const beyond = kind === "argMax" ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
        bits[at(0, 0)] = 0xffc00000;
        bits[at(1, length - 1)] = 0xff800001;
        bits[at(2, length >> 1)] = 0x7f800001;
        bits[at(3, 3)] = bits[at(3, length - 2)] = 0x7fc00000;
        data[at(3, 1)] = beyond;
        data[at(4, length - 1)] = beyond;
        for (let j = 0; j < length; j++) data[at(5, j)] = beyond;
        for (let j = 0; j < length; j++) data[at(6, j)] = -beyond;
        for (let j = 0; j < length; j++) data[at(7, j)] = j % 2 === 0 ? -0 : 0;
        for (let j = 0; j < length; j++) data[at(8, j)] = j % 2 === 0 ? 0 : -0;
        expect([...run(kind, "f32", shape, data)], `${kind} [${shape}]`).to.deep.equal([
          ...[0, length - 1, length >> 1, 3, length - 1],
          ...[0, 0, 0, 0],
        ]);
      }
    }
  });
});

describe("argReduce plans", () => {
  it("give chunks enough to do, and cut what has too few rows", () => {
    const plan = (outer: number, length: number, inner: number) => planSlabs({ outer, length, inner });
    expect(plan(16_384, 4096, 1)).to.include({ form: "rows", perChunk: 256, pieces: 1 });
    expect(plan(2 ** 20, 64, 1)).to.include({ form: "rows", perChunk: 16_384, pieces: 1 });
    expect(plan(64, 2 ** 20, 1)).to.include({ form: "rows", perChunk: 1, pieces: 1 });
    expect(plan(1, 2 ** 24, 1)).to.include({ form: "rows", pieces: 64, pieceLength: 2 ** 18 });
    expect(plan(1, 4096, 16_384)).to.include({ form: "columns", panels: 32, pieces: 2 });
    for (const [outer, length, inner] of shapes) {
      const { panels, panelWidth, pieces, pieceLength, perChunk } = plan(outer, length, inner);
      expect(panels * panelWidth).to.be.at.least(inner);
      expect((panels - 1) * panelWidth).to.be.below(inner);
      expect(pieces * pieceLength).to.be.at.least(length);
      expect((pieces - 1) * pieceLength).to.be.below(length);
      expect(perChunk).to.be.at.least(1);
      if (panels > 1) expect(panelWidth % 4).to.equal(0);
    }
  });
});
