// Tags: kernels, pure
import { dtypeBytes, type FloatType, floatTypes, type QuantizedGemmProblem } from "@backplane/core";
import { expect } from "chai";
import { address, type CpuMemory, readSlackBytes } from "#src/kernels/kernel.js";
import { stretchBlocks } from "#src/kernels/quantized-gemm/dot.wasm.js";
import { chunkColumns } from "#src/kernels/quantized-gemm/finish.js";
import { mostFewRows, quantizedGemm } from "#src/kernels/quantized-gemm/index.js";
import { chunkRows } from "#src/kernels/quantized-gemm/prepare.wasm.js";
import { scalesAtOnce } from "#src/kernels/quantized-gemm/scales.js";
import { splitBlocks, splitBytes } from "#src/kernels/quantized-gemm/split.wasm.js";
import { groupColumns } from "#src/kernels/quantized-gemm/streams.js";
import { types } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes } from "./problems.js";

type Extents = readonly [m: number, n: number, k: number];

/** Around rows that are taken together, columns and rows of chunks, blocks and units. */
const shapes: readonly Extents[] = [
  ...[1, 2, 3, 4, 5, 7, mostFewRows, mostFewRows + 1, 40].map((m): Extents => [m, 19, 70]),
  ...[
    1,
    3,
    groupColumns,
    groupColumns + 1,
    2 * groupColumns,
    chunkColumns - 1,
    chunkColumns,
    chunkColumns + 1,
    200,
  ].map((n): Extents => [2, n, 33]),
  ...[chunkRows - 1, chunkRows + 1, 67].map((n): Extents => [20, n, 129]),
  ...[stretchBlocks, stretchBlocks + 1, 2 * stretchBlocks].map((blocks): Extents => [3, 6, 32 * blocks]),
  ...[1, 15, 16, 17, 31, 32, 64, 127, 128, 256, 1000].map((k): Extents => [1, 5, k]),
  ...[1, groupColumns + 1, chunkColumns + 1].map((n): Extents => [1, n, 70]),
  ...[scalesAtOnce, scalesAtOnce + 1, splitBlocks + 1].map((blocks): Extents => [1, 6, 32 * blocks]),
];

/** What a block of a row may have that no unit holds, and what one holds. Each makes a number for a place of the row. */
const hostile: Readonly<Record<string, (next: () => number, place: number) => number>> = {
  "large beside small numbers": (next, place) => (place % 7 === 3 ? 1e30 : 1e-30) * (next() - 0.5),
  "numbers that are large as they are": (next) => (next() - 0.5) * 2 ** 112,
  "all exponents": (next) => (next() - 0.5) * 2 ** (100 * (next() - 0.5)),
  "numbers just below a power of two": (next) => (2 - 2 ** -23) * 2 ** Math.floor(-30 * next()),
  "numbers around the least that may be rounded": (next, place) =>
    place % 32 === 5 ? 1.75 : (1 + next()) * 2 ** (-10 - Math.floor(14 * next())),
  "subnormal numbers": (next) => Math.floor(1000 * next()) * 2 ** -149,
  "subnormal numbers beside 1": (next, place) => (place % 32 === 9 ? 1 : Math.floor(9 * next()) * 2 ** -149),
  zeros: (next) => (next() < 0.5 ? 0 : -0),
  "a block of zeros between others": (next, place) => (place >> 6 === 1 ? 0 : next() - 0.5),
  "an infinity": (next, place) => (place === 40 ? Number.POSITIVE_INFINITY : next() - 0.5),
  "infinities of both signs": (next, place) =>
    place === 40 || place === 75 ? (place - 50) * Number.POSITIVE_INFINITY : next() - 0.5,
  "a NaN": (next, place) => (place === 70 ? Number.NaN : next() - 0.5),
};

describeEitherWay("quantizedGemm kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(quantizedGemm.kernels, { ...options, pages: 256, workers: 3 });
  });

  const upload = (values: readonly number[], dtype: FloatType) =>
    bench.upload(types[dtype].encode(Float32Array.from(values)) as Float32Array);

  function check(
    [m, n, k]: Extents,
    bits: 4 | 8,
    block: 32 | 64 | 128,
    dtype: FloatType,
    scaleType: FloatType,
    hasZeroPoints: boolean,
    mayRoundA: boolean,
  ): void {
    const next = randomNumbers(m + n + k);
    const whole = (least: number, count: number) => least + Math.floor(count * next());
    const list = (length: number, make: () => number) => Array.from({ length }, make);
    const blocks = Math.ceil(k / block);
    const a = list(m * k, () => whole(-1, 3));
    const b = Uint8Array.from(list((n * blocks * block * bits) / 8, () => whole(0, 256)));
    const scales = list(n * blocks, () => whole(-2, 5));
    const zeros = hasZeroPoints ? list(n * blocks, () => whole(0, 2 ** bits)) : undefined;
    const bias = list(n, () => whole(-9, 19));
    const weight = (row: number, p: number) => {
      const at = row * blocks * block + p;
      const q = bits === 8 ? b[at]! : (b[at >> 1]! >> (4 * (at % 2))) & 15;
      const place = row * blocks + Math.floor(p / block);
      return scales[place]! * (q - (zeros?.[place] ?? 2 ** (bits - 1)));
    };
    const expected = Float32Array.from({ length: m * n }, (_, i) => {
      const [row, column] = [Math.floor(i / n), i % n];
      let sum = bias[column]!;
      for (let p = 0; p < k; p++) sum += a[row * k + p]! * weight(column, p);
      return Math.max(sum, 0);
    });
    const size = dtypeBytes[dtype];
    const c = guardedBytes(bench, size * m * n, size);
    const problem: QuantizedGemmProblem<CpuMemory> = {
      ...{ dtype, scaleType, bits, block, mayRoundA, m, n, k, blocks, beta: 0, activation: "relu" },
      c: c.region,
      ...{
        a: upload(a, dtype),
        b: bench.upload(b),
        scales: upload(scales, scaleType),
        bias: upload(bias, dtype),
      },
      zeroPoints: zeros && bench.upload(Uint8Array.from(zeros)),
    };
    bench.run(quantizedGemm.plan(problem, bench.context));
    const encoded = types[dtype].encode(expected);
    const got = new Uint8Array(c.read());
    const wanted = new Uint8Array(encoded.buffer, encoded.byteOffset, encoded.byteLength);
    const label = `${[m, n, k]}, ${bits} bits in blocks of ${block}, ${dtype}, scales ${scaleType}, ${hasZeroPoints}, ${mayRoundA}`;
    expect(Buffer.compare(got, wanted), label).to.equal(0);
  }

  for (const dtype of floatTypes)
    it(`are exact on whole numbers in ${dtype}, on both sides of every threshold`, async () => {
      for (const [i, shape] of shapes.entries())
        for (const bits of [4, 8] as const) {
          bench = await Workbench.create(quantizedGemm.kernels, { ...options, pages: 256, workers: 3 });
          const block = ([32, 64, 128] as const)[(i + bits / 4) % 3]!;
          // Whole numbers below 2^15 stay as they are, also if they may be rounded.
          for (const mayRoundA of shape[0] === 1 ? [false, true] : [false]) {
            check(shape, bits, block, dtype, i % 2 === 0 ? "f32" : "f16", i % 3 !== 0, mayRoundA);
            check(shape, bits, 32, dtype, i % 2 === 0 ? "f16" : "f32", i % 3 === 0, mayRoundA);
          }
        }
    });

  /** What problems of one row in f32 share: no zero points, and nothing after the product. */
  const plainRow = {
    ...({ dtype: "f32", scaleType: "f32", m: 1, beta: 0 } as const),
    ...{ zeroPoints: undefined, bias: undefined, activation: undefined },
  };

  /** One row of A in f32 times some rows of B without zero points, in exact scales. */
  function oneRow(
    { bits, block, mayRoundA }: Pick<QuantizedGemmProblem<CpuMemory>, "bits" | "block" | "mayRoundA">,
    a: Float32Array,
    b: Uint8Array,
    scales: Float32Array,
  ) {
    const [k, blocks] = [a.length, Math.ceil(a.length / block)];
    const n = scales.length / blocks;
    const c = bench.alloc(4 * n);
    const problem: QuantizedGemmProblem<CpuMemory> = {
      ...plainRow,
      ...{ bits, block, mayRoundA, n, k, blocks, c },
      ...{ a: bench.upload(a), b: bench.upload(b), scales: bench.upload(scales) },
    };
    bench.run(quantizedGemm.plan(problem, bench.context));
    return bench.float32(c);
  }

  for (const [name, number] of Object.entries(hostile))
    for (const mayRoundA of [false, true])
      it(`stay within the ${mayRoundA ? "wider " : ""}error bound of one row with ${name}`, async () => {
        for (const bits of [4, 8] as const)
          for (const block of [32, 64, 128] as const)
            for (const k of [3, 200]) {
              bench = await Workbench.create(quantizedGemm.kernels, options);
              const next = randomNumbers(k + block + bits);
              const [n, blocks, middle] = [6, Math.ceil(k / block), 2 ** (bits - 1)];
              const a = Float32Array.from({ length: k }, (_, p) => number(next, p));
              const most = a.reduce((sum, x) => Math.max(sum, Math.abs(x)), 0);
              // Weights of large numbers are 0 now and then, so that small ones are all that is left.
              const q = Array.from({ length: n * blocks * block }, (_, i) => {
                const x = Math.abs(a[i % (blocks * block)] ?? 0);
                const isLarge = x > most / 64 && Math.floor(i / (blocks * block)) % 2 === 0;
                return isLarge ? middle : Math.floor(2 * middle * next());
              });
              const b =
                bits === 8
                  ? Uint8Array.from(q)
                  : Uint8Array.from({ length: q.length / 2 }, (_, i) => q[2 * i]! + 16 * q[2 * i + 1]!);
              const scales = Float32Array.from({ length: n * blocks }, () => 2 ** Math.floor(-4 * next()));
              const got = oneRow({ bits, block, mayRoundA }, a, b, scales);
              const largest = Array.from({ length: blocks }, (_, i) =>
                a.slice(i * block, (i + 1) * block).reduce((most, x) => Math.max(most, Math.abs(x)), 0),
              );
              for (let j = 0; j < n; j++) {
                let [sum, magnitude, rounding] = [0, 0, 0];
                for (let p = 0; p < k; p++) {
                  const own = Math.floor(p / block);
                  const weight = scales[j * blocks + own]! * (q[j * blocks * block + p]! - middle);
                  sum += a[p]! * weight;
                  magnitude += Math.abs(a[p]! * weight);
                  if (mayRoundA) rounding += 2 ** -15 * largest[own]! * Math.abs(weight);
                }
                const label = `${bits} bits in blocks of ${block}, k ${k}, column ${j}: ${got[j]}, not ${sum}`;
                if (Number.isFinite(sum)) {
                  const bound = ((k + 5) * 2 ** -23) / (1 - (k + 5) * 2 ** -23);
                  expect(Math.abs(got[j]! - sum), label).at.most(
                    bound * (magnitude + rounding) + rounding + (k + 5) * 2 ** -149,
                  );
                } else expect(Object.is(got[j], sum), label).to.equal(true);
              }
            }
      });

  it("round a row that may be rounded, to units of which the largest number of a block has 2^15 at most", async () => {
    for (const bits of [4, 8] as const) {
      bench = await Workbench.create(quantizedGemm.kernels, options);
      // Of the first block the unit is 1, of the second one 2.
      const a = Float32Array.from({ length: 64 }, (_, p) => [2 ** 15 - 1, 0.5, 0.75, -1.5][p] ?? 0);
      a.set([2 ** 16 - 2 ** -7, 0.75, 1.25, -3], 32);
      const expected = [2 ** 15 - 1, 0, 1, -2, 2 ** 16 - 2, 0, 2, -4];
      const places = [0, 1, 2, 3, 32, 33, 34, 35];
      const middle = 2 ** (bits - 1);
      const q = Array.from({ length: 8 * 64 }, (_, i) => middle + Number(i % 64 === places[i >> 6]));
      const b = Uint8Array.from({ length: 64 * bits }, (_, i) =>
        bits === 8 ? q[i]! : q[2 * i]! + 16 * q[2 * i + 1]!,
      );
      const got = oneRow({ bits, block: 32, mayRoundA: true }, a, b, new Float32Array(16).fill(1));
      expect([...got], `${bits} bits`).to.deep.equal(expected);
    }
  });

  it("sum up the products of a block of one row without rounding", async () => {
    for (const bits of [4, 8] as const) {
      bench = await Workbench.create(quantizedGemm.kernels, options);
      const middle = 2 ** (bits - 1);
      // In f32, 1 and 2^-22 with weights of 7 would be 7 before -7 takes that away.
      const a = Float32Array.from({ length: 32 }, (_, p) => [1, 2 ** -26, -1][p] ?? 0);
      const q = a.map((_, p) => (p < 3 ? middle + 7 : 0));
      const b = Uint8Array.from({ length: 4 * bits }, (_, i) =>
        bits === 8 ? q[i]! : q[2 * i]! + 16 * q[2 * i + 1]!,
      );
      expect(
        oneRow({ bits, block: 32, mayRoundA: false }, a, b, Float32Array.of(1))[0],
        `${bits} bits`,
      ).to.equal(7 * 2 ** -26);
    }
  });

  it("read nothing far behind the weights, which may be the last bytes of the memory", async () => {
    for (const [bits, mayRoundA] of ([4, 8] as const).flatMap((bits) => [
      [bits, false] as const,
      [bits, true] as const,
    ]))
      for (const n of [1, groupColumns, groupColumns + 1, 2 * groupColumns, 2 * groupColumns + 1]) {
        bench = await Workbench.create(quantizedGemm.kernels, { ...options, pages: 256 });
        const block = 32;
        const blocks = stretchBlocks + 1;
        const k = blocks * block;
        const [a, scales, c] = [4 * k, 4 * n * blocks, 4 * n].map((bytes) => bench.alloc(bytes));
        const bytes = (n * k * bits) / 8;
        const split = bench.alloc(splitBytes(blocks, block, mayRoundA ? 1 : 2));
        const { byteOffset, byteLength } = split.memory;
        const used = Math.ceil((byteOffset + byteLength + readSlackBytes) / 64) * 64;
        const own = Math.ceil(bytes / 64) * 64;
        bench.alloc(bench.memory.buffer.byteLength - used - own - 2 * readSlackBytes);
        const problem: QuantizedGemmProblem<CpuMemory> = {
          ...plainRow,
          ...{ bits, block, mayRoundA, n, k, blocks },
          ...{ a: a!, b: bench.alloc(bytes), scales: scales!, c: c! },
        };
        const context = { ...bench.context, workspace: () => address(split) };
        expect(() => bench.run(quantizedGemm.plan(problem, context)), `${n}, ${bits} bits`).not.to.throw();
      }
  });
});
