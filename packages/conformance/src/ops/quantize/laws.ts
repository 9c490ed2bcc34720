import {
  type FloatType,
  floatTypes,
  fromGguf,
  type GgufFormat,
  ggufFormats,
  type QuantizedBits,
  quantizedBits,
  quantizedBlocks,
  quantize as quantizeOnHost,
} from "@backplane/core";
import fc from "fast-check";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { random } from "../../data.js";
import { decoded, encoded, halfBits } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { withAllocations } from "../../kit/checks.js";
import type { Law, LawContext } from "../../law.js";
import { measure } from "../../workspace.js";
import { dequantized } from "../quantized-gemm/formula.js";
import {
  cases,
  check,
  extentsOf,
  largestOf,
  measureSame,
  type QuantizeCase,
  quantizeCase,
  run,
  shapeOf,
  type WeightData,
  weightsOf,
} from "./cases.js";

/**
 * Both sides of what kernels may take at once: blocks of a workgroup or a chunk, rows of whole vectors and others,
 * outputs that end within a word, more blocks than a grid of workgroups has in one dimension.
 */
const largeCases: readonly QuantizeCase[] = [
  quantizeCase({ n: 3, k: 20_001, zeroPoints: true }),
  quantizeCase({ n: 66_001, k: 3, scaleType: "f16" }),
  quantizeCase({ n: 129, k: 260, bits: 8, zeroPoints: true, scaleType: "f16" }),
  quantizeCase({ n: 33, k: 2048, block: 64 }),
  quantizeCase({ n: 7, k: 4104, block: 128, bits: 8, scaleType: "f16", data: "ties" }),
  quantizeCase({ n: 1, k: 131_071, block: 64, bits: 8, data: "wide" }),
  quantizeCase({ n: 255, k: 130, block: 128, zeroPoints: true, data: "ties" }),
];

/** Every format, half of them with scales in f16. */
const formats = quantizedBits.flatMap((bits) =>
  quantizedBlocks.flatMap((block) =>
    [false, true].map((zeroPoints) => ({
      ...{ bits, block, zeroPoints },
      scaleType: floatTypes[(Number(zeroPoints) + bits / 4) % 2]!,
    })),
  ),
);

const stepped = fc.constantFrom<WeightData[]>("multiples", "ties");

/** The weights that results stand for. */
function restored(value: QuantizeCase, got: Awaited<ReturnType<typeof run>>): Float64Array {
  return dequantized(shapeOf(value), got);
}

/** Weights next to which others are not finite, or too large, in some blocks and not in others. */
function withOutliers(value: QuantizeCase, dtype: FloatType): Float64Array {
  const weights = weightsOf(value, dtype);
  const { n, k, block, seed } = value;
  const next = random(seed + 9);
  const largest = largestOf(dtype);
  const outliers = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, largest, -largest];
  for (let row = 0; row < n; row++)
    for (let begin = 0; begin < k; begin += block) {
      const length = Math.min(block, k - begin);
      const at = () => row * k + begin + Math.floor(next() * length);
      const kind = Math.floor(next() * 8);
      if (kind < outliers.length) weights[at()] = outliers[kind]!;
      // Of either sign, so that their distance is larger than both.
      if (kind === 5) for (const sign of [-1, 1]) weights[at()] = sign * largest;
      if (kind === 6) weights.fill(0, row * k + begin, row * k + begin + length);
    }
  return weights;
}

/** Blocks of a file with positive scales of few bits, whose ends are the largest steps of either sign but for one. */
function ggufBlocks(format: GgufFormat, count: number): Uint8Array {
  const next = random(4);
  const below = (end: number) => Math.floor(next() * end);
  const isSmall = format === "Q4_0";
  const bytes = new Uint8Array(count * (isSmall ? 18 : 34));
  for (let i = 0; i < count; i++) {
    const own = bytes.subarray((i * bytes.length) / count, ((i + 1) * bytes.length) / count);
    const scale = halfBits((8 + below(8)) * 2 ** -(6 + below(4)));
    own[0] = scale & 255;
    own[1] = scale >> 8;
    // Never the lowest step, which is further from 0 than the largest.
    for (let j = 2; j < own.length; j++)
      own[j] = isSmall ? (1 + below(15)) | ((1 + below(15)) << 4) : below(255) - 127;
    own[2 + below(own.length - 2)] = isSmall ? 0x1f : 127;
  }
  return bytes;
}

/** The weights of a matrix become the matrix. */
async function keepsFile(context: LawContext, dtype: FloatType, format: GgufFormat): Promise<void> {
  const [n, k] = [5, 96];
  const { bits, block, scaleType, b, scales } = fromGguf(format, ggufBlocks(format, (n * k) / 32));
  const value = quantizeCase({ n, k, bits, block, scaleType });
  const matrix = {
    b: Float64Array.from(b),
    scales: decoded(scales.buffer, 0, scales.length, "f16"),
    zeroPoints: new Float64Array(scales.length).fill(2 ** (bits - 1)),
  };
  measureSame(context, value, await run(context, dtype, value, restored(value, matrix)), matrix);
}

/** What one operation stores, the other one multiplies rows of the identity by: results are the weights. */
async function bringsBack(
  { backend, observe }: LawContext,
  dtype: FloatType,
  value: QuantizeCase,
): Promise<void> {
  const { n, k, bits, block, scaleType } = value;
  const weights = weightsOf(value, dtype);
  const rows = [0, k - 1];
  const identity = rows.flatMap((row) => Array.from({ length: k }, (_, p) => (p === row ? 1 : 0)));
  const count = n * Math.ceil(k / block);
  const size = encoded([0], dtype).length;
  const format = { n, k, bits, block, scaleType, ...given(dtype) };
  await withAllocations(
    backend,
    [
      k * n * size,
      rows.length * k * size,
      (count * block * bits) / 8,
      count * 4,
      count,
      rows.length * n * size,
    ],
    async (input, a, b, scales, zeroPoints, c) => {
      backend.copyHtoD(input!, encoded(weights, dtype));
      backend.copyHtoD(a!, encoded(identity, dtype));
      const stored = { b: b!, scales: scales!, ...(value.zeroPoints ? { zeroPoints: zeroPoints! } : {}) };
      backend.quantize({ ...format, input: input!, ...stored });
      backend.quantizedGemm({ m: rows.length, ...format, a: a!, ...stored, c: c! });
      const bytes = new Uint8Array(rows.length * n * size);
      await backend.copyDtoH(bytes, c!);
      const values = rows.flatMap((row) => Array.from({ length: n }, (_, j) => weights[j * k + row]!));
      const expected = { places: values.map((_, i) => i), values, magnitudes: values };
      measure(
        { observe },
        extentsOf(value),
        decoded(bytes.buffer, 0, values.length, dtype),
        expected,
        () => 0,
      );
    },
  );
}

export const quantizeLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "quantize", name, operation: "quantize", dtype, run },
  });
  return [
    law("stores the nearest numbers", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, value), { runs: 2 }),
    ),
    law("stores the nearest numbers on larger shapes", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value)),
    ),
    law("rounds halves up, and what is next to them to the nearest number", (context) =>
      context.forAll(cases({ data: fc.constant<WeightData>("ties") }), (value) =>
        check(context, dtype, value),
      ),
    ),
    law("keeps whole multiples of a scale", (context) =>
      context.forEach(formats, async (format) => {
        const value = quantizeCase({ n: 5, k: 2 * format.block + 9, data: "multiples", ...format });
        const weights = weightsOf(value, dtype);
        const values = [...weights];
        const places = values.map((_, i) => i);
        const got = restored(value, await run(context, dtype, value, weights));
        measure(context, extentsOf(value), got, { places, values, magnitudes: values }, () => 0);
      }),
    ),
    law("moves weights by at most half a scale, or a whole one with zero points", (context) =>
      context.forAll(cases(), async (value) => {
        const weights = weightsOf(value, dtype);
        const got = await run(context, dtype, value, weights);
        const { blocks } = shapeOf(value);
        const values = [...weights];
        const places = values.map((_, i) => i);
        // A scale that was rounded down is too small by half a unit, and so is each step to the end of the range.
        const [steps, unit] = [2 ** value.bits, { f32: 2 ** -24, f16: 2 ** -11 }[value.scaleType]];
        const allowed = (i: number) => {
          const scale =
            got.scales[Math.floor(i / value.k) * blocks + Math.floor((i % value.k) / value.block)]!;
          const subnormal = value.scaleType === "f16" ? steps * 2 ** -25 : 0;
          return scale * ((value.zeroPoints ? 1 : 0.5) + 2 * steps * unit) + subnormal;
        };
        const expected = { places, values, magnitudes: values };
        const tolerance = (_value: number, _magnitude: number, i: number) => allowed(i);
        measure(context, extentsOf(value), restored(value, got), expected, tolerance);
      }),
    ),
    law("makes NaN of scales that are no numbers of their type, and of no others", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, value, withOutliers(value, dtype))),
    ),
    law("takes weights of any size", (context) =>
      context.forAll(
        cases({ data: fc.oneof(stepped, fc.constantFrom<WeightData[]>("normal", "sparse")) }),
        async (value) => {
          // Down to where only 0 is left, and up to where scales are infinite.
          const { least, most } = { f32: { least: -160, most: 129 }, f16: { least: -10, most: 12 } }[dtype];
          const shift = 2 ** (least + (value.seed % (most - least)));
          const scaled = encoded(
            weightsOf(value, dtype).map((x) => x * shift),
            dtype,
          );
          await check(context, dtype, value, decoded(scaled.buffer, 0, value.n * value.k, dtype));
        },
      ),
    ),
    law("stores what quantize of the host does", (context) =>
      context.forAll(
        cases({ data: fc.oneof(stepped, fc.constantFrom<WeightData[]>("normal", "wide")) }),
        async (value) => {
          const { n, k, bits, block, scaleType, zeroPoints } = value;
          const weights = weightsOf(value, dtype);
          const host = quantizeOnHost(Float32Array.from(weights), {
            n,
            k,
            bits,
            block,
            scaleType,
            zeroPoints,
          });
          measureSame(context, value, await run(context, dtype, value, weights), {
            b: Float64Array.from(host.b),
            scales: decoded(host.scales.buffer, 0, host.scales.length, scaleType),
            zeroPoints: Float64Array.from({ length: host.scales.length }, (_, i) =>
              host.zeroPoints === undefined ? middleOf(bits) : host.zeroPoints[i]!,
            ),
          });
        },
      ),
    ),
    law("keeps the bytes of files whose blocks reach the largest step", (context) =>
      context.forEach(ggufFormats, (format) => keepsFile(context, dtype, format)),
    ),
    {
      ...law("stores what quantizedGemm reads", (context) =>
        context.forEach(
          [
            quantizeCase({ n: 9, k: 70, data: "multiples" }),
            quantizeCase({
              n: 7,
              k: 130,
              bits: 8,
              block: 64,
              scaleType: "f16",
              zeroPoints: true,
              data: "multiples",
            }),
          ],
          (value) => bringsBack(context, dtype, value),
        ),
      ),
      exempt: (_capabilities, backend) =>
        backend.supports("quantizedGemm", { dtype }) ? undefined : `there is no quantizedGemm in ${dtype}`,
    },
    law("touches nothing but its results", (context) =>
      context.forAll(cases({ placement: oddPlacement }), (value) => check(context, dtype, value)),
    ),
  ];
}

function middleOf(bits: QuantizedBits): number {
  return 2 ** (bits - 1);
}
