// Tags: kernels, pure
import {
  dtypeBytes,
  type FloatType,
  floatTypes,
  type QuantizeProblem,
  quantizedBits,
  quantizedBlocks,
  quantize as quantizeOnHost,
} from "@backplane/core";
import { expect } from "chai";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { quantize } from "#src/kernels/quantize/index.js";
import { asStored } from "../types.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { randomNumbers } from "./numbers.js";
import { guardedBytes, uploadElements } from "./problems.js";

/** Parts of vectors and of blocks, rows that begin anywhere, and enough blocks for several chunks. */
const shapes: readonly (readonly [n: number, k: number])[] = [
  ...[1, 3, 4, 15, 16, 31, 32, 33, 64, 100, 128, 129, 256].map((k) => [3, k] as const),
  ...[
    [1, 20_000],
    [700, 33],
  ].map(([n, k]) => [n!, k!] as const),
];

describeEitherWay("quantize kernels", (options) => {
  let bench: Workbench;

  function check(
    [n, k]: readonly [number, number],
    format: Pick<QuantizeProblem<CpuMemory>, "bits" | "block" | "scaleType">,
    dtype: FloatType,
    hasZeroPoints: boolean,
  ): void {
    const { bits, block, scaleType } = format;
    const next = randomNumbers(n + k + bits);
    // Halves of one step are frequent, and so are numbers next to them.
    const drawn = Float32Array.from({ length: n * k }, () =>
      next() < 0.5 ? Math.round(next() * 64 - 32) / 8 : 8 * next() - 4,
    );
    const weights = asStored(dtype, drawn);
    const expected = quantizeOnHost(weights, { n, k, ...format, zeroPoints: hasZeroPoints });
    const blocks = Math.ceil(k / block);
    const b = guardedBytes(bench, expected.b.byteLength, 1);
    const scales = guardedBytes(bench, expected.scales.byteLength, dtypeBytes[scaleType]);
    const zeros = hasZeroPoints ? guardedBytes(bench, n * blocks, 3) : undefined;
    const problem: QuantizeProblem<CpuMemory> = {
      ...{ ...format, dtype, n, k, blocks, input: uploadElements(bench, dtype, weights) },
      ...{ b: b.region, scales: scales.region, zeroPoints: zeros?.region },
    };
    bench.run(quantize.plan(problem, bench.context));
    const label = `${n} x ${k}, ${bits} bits in blocks of ${block}, ${dtype}, scales ${scaleType}, ${hasZeroPoints}`;
    for (const [output, wanted] of [
      [b, expected.b],
      [scales, expected.scales],
      [zeros, expected.zeroPoints],
    ] as const)
      if (output !== undefined)
        expect(Buffer.compare(new Uint8Array(output.read()), Buffer.from(wanted!.buffer)), label).to.equal(0);
  }

  for (const dtype of floatTypes)
    it(`store the same bits as the host in ${dtype}, on both sides of every threshold`, async () => {
      for (const [i, shape] of shapes.entries()) {
        bench = await Workbench.create(quantize.kernels, { ...options, pages: 256, workers: 3 });
        for (const bits of quantizedBits)
          for (const hasZeroPoints of [false, true]) {
            const block = quantizedBlocks[(i + Number(hasZeroPoints)) % 3]!;
            check(shape, { bits, block, scaleType: floatTypes[i % 2]! }, dtype, hasZeroPoints);
          }
      }
    });
});
