// Tags: kernels, pure
import { dtypeBytes, type FloatType, floatTypes, type QuantizedGemmProblem } from "@backplane/core";
import { expect } from "chai";
import { type CpuMemory, readSlackBytes } from "#src/kernels/kernel.js";
import { groupColumns, stretchBlocks } from "#src/kernels/quantized-gemm/dot.wasm.js";
import { chunkColumns } from "#src/kernels/quantized-gemm/few-rows.wasm.js";
import { mostFewRows, quantizedGemm } from "#src/kernels/quantized-gemm/index.js";
import { chunkRows } from "#src/kernels/quantized-gemm/prepare.wasm.js";
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
];

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
      ...{ dtype, scaleType, bits, block, m, n, k, blocks, beta: 0, activation: "relu", c: c.region },
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
    const label = `${[m, n, k]}, ${bits} bits in blocks of ${block}, ${dtype}, scales ${scaleType}, ${hasZeroPoints}`;
    expect(Buffer.compare(got, wanted), label).to.equal(0);
  }

  for (const dtype of floatTypes)
    it(`are exact on whole numbers in ${dtype}, on both sides of every threshold`, async () => {
      for (const [i, shape] of shapes.entries())
        for (const bits of [4, 8] as const) {
          bench = await Workbench.create(quantizedGemm.kernels, { ...options, pages: 256, workers: 3 });
          const block = ([32, 64, 128] as const)[(i + bits / 4) % 3]!;
          check(shape, bits, block, dtype, i % 2 === 0 ? "f32" : "f16", i % 3 !== 0);
          check(shape, bits, 32, dtype, i % 2 === 0 ? "f16" : "f32", i % 3 === 0);
        }
    });

  it("read nothing far behind the weights, which may be the last bytes of the memory", async () => {
    for (const bits of [4, 8] as const)
      for (const n of [1, groupColumns, groupColumns + 1, 2 * groupColumns, 2 * groupColumns + 1]) {
        bench = await Workbench.create(quantizedGemm.kernels, { ...options, pages: 256 });
        const block = 32;
        const blocks = stretchBlocks + 1;
        const k = blocks * block;
        const [a, scales, c] = [4 * k, 4 * n * blocks, 4 * n].map((bytes) => bench.alloc(bytes));
        const bytes = (n * k * bits) / 8;
        const { byteOffset, byteLength } = c!.memory;
        const used = Math.ceil((byteOffset + byteLength + readSlackBytes) / 64) * 64;
        const own = Math.ceil(bytes / 64) * 64;
        bench.alloc(bench.memory.buffer.byteLength - used - own - 2 * readSlackBytes);
        const problem: QuantizedGemmProblem<CpuMemory> = {
          ...{
            dtype: "f32",
            scaleType: "f32",
            bits,
            block,
            m: 1,
            n,
            k,
            blocks,
            beta: 0,
            activation: undefined,
          },
          ...{ a: a!, b: bench.alloc(bytes), scales: scales!, c: c!, bias: undefined, zeroPoints: undefined },
        };
        expect(
          () => bench.run(quantizedGemm.plan(problem, bench.context)),
          `${n}, ${bits} bits`,
        ).not.to.throw();
      }
  });
});
