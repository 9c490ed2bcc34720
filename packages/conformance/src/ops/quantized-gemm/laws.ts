import {
  type FloatType,
  floatTypes,
  fromGguf,
  type GgufFormat,
  ggufFormats,
  type Operand,
  type QuantizedMatrix,
  quantize,
  quantizedBits,
  quantizedBlocks,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { random } from "../../data.js";
import { halfBits, storages } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { pattern } from "../../kit/checks.js";
import { computeAll } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { measure } from "../../workspace.js";
import { type Finish, finished, finishedInTurn, finishes, unlessEpilogue } from "../epilogue.js";
import {
  type CaseOptions,
  cases,
  checkExact,
  checkWithinBound,
  extentsOf,
  integerOperands,
  type QuantizedCase,
  quantizedCase,
  run,
} from "./cases.js";
import { roundedLaws } from "./rounded.js";

/**
 * Both sides of what kernels may take at once: rows of A; blocks of a row and parts of a block; more rows of B than a
 * grid of workgroups has in one dimension; sums long enough to be divided; products large enough to be tiled.
 */
const largeCases: readonly QuantizedCase[] = [
  quantizedCase({ m: 1, n: 300, k: 4097, zeroPoints: true }),
  quantizedCase({ m: 1, n: 65_540, k: 33 }),
  quantizedCase({ m: 8, n: 70, k: 2049, bits: 8, scaleType: "f16" }),
  quantizedCase({ m: 9, n: 133, k: 500, block: 64, zeroPoints: true, scaleType: "f16" }),
  quantizedCase({ m: 130, n: 67, k: 300, block: 128, zeroPoints: true }),
  quantizedCase({ m: 64, n: 128, k: 256, bits: 8, zeroPoints: true }),
  quantizedCase({ m: 5, n: 17, k: 4224, block: 128, bits: 8 }),
  quantizedCase({ m: 2, n: 1001, k: 384, scaleType: "f16", zeroPoints: true }),
  quantizedCase({ m: 1025, n: 1, k: 96 }),
  quantizedCase({ m: 33, n: 40, k: 2080, block: 64, bits: 8, zeroPoints: true }),
  quantizedCase({ m: 17, n: 260, k: 640, scaleType: "f16", data: "uniform" }),
  quantizedCase({ m: 3, n: 9, k: 16_385, block: 128, scaleType: "f16" }),
];

/** Whole numbers stay whole. */
const wholeFinishes = fc.constantFrom<Finish>(
  { bias: true },
  { bias: true, activation: "relu" },
  { bias: false, activation: "relu" },
  { bias: true, activation: "relu6" },
);

/** Weights as a host has them: how they are stored, and the exact number that each stands for. */
interface Source {
  readonly name: string;
  readonly n: number;
  readonly k: number;
  readonly matrix: QuantizedMatrix;
  readonly weights: readonly number[];
}

/** Random blocks of a GGUF file with scales in the normal range, and what its formulas make of them. */
function ggufSource(format: GgufFormat, n: number, k: number): Source {
  const bytesPerBlock = { Q4_0: 18, Q8_0: 34 }[format];
  const bytes = pattern(((n * k) / 32) * bytesPerBlock, 5);
  const next = random(6);
  const weights: number[] = [];
  for (let at = 0; at < bytes.length; at += bytesPerBlock) {
    const scale = halfBits((next() < 0.5 ? -1 : 1) * (0.01 + next()));
    bytes[at] = scale & 255;
    bytes[at + 1] = scale >> 8;
    for (let i = 0; i < 32; i++) {
      const byte = bytes[at + 2 + (format === "Q4_0" ? i % 16 : i)]!;
      const nibble = i < 16 ? byte & 15 : byte >> 4;
      const steps = format === "Q4_0" ? nibble - 8 : byte - (byte < 128 ? 0 : 256);
      weights.push(storages.f16.decode(scale) * steps);
    }
  }
  return { name: format, n, k, matrix: fromGguf(format, bytes), weights };
}

/** Multiples of a power of two, which `quantize` keeps if they reach from one end of its range to the other. */
function quantizeSource(
  options: Omit<Parameters<typeof quantize>[1], "n" | "k">,
  n: number,
  k: number,
): Source {
  const { bits = 4, block = 32, zeroPoints = false } = options;
  const next = random(7);
  const middle = 2 ** (bits - 1);
  const weights = Array.from({ length: n * k }, (_, i) => {
    const p = i % k;
    const unit = 2 ** (Math.floor(p / block) % 3);
    const [low, high] = zeroPoints ? [-3, 2 * middle - 4] : [1 - middle, middle - 1];
    // The ends are in every block.
    const steps =
      p % block === 0 ? high : p % block === 1 ? low : low + Math.floor(next() * (high - low + 1));
    return steps * unit;
  });
  const matrix = quantize(Float32Array.from(weights), { n, k, ...options });
  return { name: `quantize ${JSON.stringify(options)}`, n, k, matrix, weights };
}

const sources = (): readonly Source[] => [
  ...ggufFormats.map((format) => ggufSource(format, 21, 64)),
  ...quantizedBits.flatMap((bits) =>
    quantizedBlocks.flatMap((block) => [
      quantizeSource({ bits, block }, 9, 130),
      quantizeSource({ bits, block, zeroPoints: true, scaleType: "f16" }, 9, 130),
    ]),
  ),
];

/** With rows of the identity for A, one at a time or all together, the product is the weights. */
async function bringsBack(
  context: LawContext,
  dtype: FloatType,
  source: Source,
  rows: number,
): Promise<void> {
  const { n, k, matrix, weights } = source;
  const { b, scales, zeroPoints, ...format } = matrix;
  const { backend } = context;
  const first = Math.min(k - rows, 37);
  const a = Array.from({ length: rows * k }, (_, i) => (i % k === first + Math.floor(i / k) ? 1 : 0));
  const numbers = (stored: ArrayLike<number>) => Array.from(stored);
  const { c } = await computeAll(
    backend,
    dtype,
    {
      a,
      b: numbers(b),
      scales: scales instanceof Uint16Array ? numbers(scales).map(storages.f16.decode) : numbers(scales),
      ...(zeroPoints === undefined ? {} : { zeroPoints: numbers(zeroPoints) }),
    },
    { c: rows * n },
    (places) =>
      backend.quantizedGemm({
        m: rows,
        n,
        k,
        ...format,
        ...given(dtype),
        ...(places as Required<typeof places> as { a: Operand; b: Operand; scales: Operand; c: Operand }),
      }),
    dtype,
    { b: "u8", scales: format.scaleType, zeroPoints: "u8" },
  );
  const values = Array.from(c!, (_, i) => weights[(i % n) * k + first + Math.floor(i / n)]!);
  const places = values.map((_, i) => i);
  // f16 holds each weight rounded once or twice, f32 holds it exactly.
  const tolerance = (value: number) => Math.abs(value) * { f32: 0, f16: 2 ** -9 }[dtype];
  const expected = { places, values, magnitudes: values };
  measure(context, [rows, n, k], Float64Array.from(c!), expected, tolerance);
}

/** Calls that differ in what must not matter give the same whole numbers. */
const changes: Readonly<
  Record<string, (value: QuantizedCase, operands: ReturnType<typeof integerOperands>) => object>
> = {
  "bytes past k": ({ n, k, bits, block }, { b }) => {
    const rowBytes = (Math.ceil(k / block) * block * bits) / 8;
    const other = b.slice();
    for (let row = 0; row < n; row++) {
      const end = (row + 1) * rowBytes;
      const from = row * rowBytes + Math.ceil((k * bits) / 8);
      for (let at = from; at < end; at++) other[at] = 255 - other[at]!;
      // The high half of a byte that k divides.
      if (bits === 4 && k % 2 === 1) other[from - 1] = (other[from - 1]! + 0x50) % 256;
    }
    return { b: other };
  },
  "zero points of the middle written out": ({ bits }, { scales }) => ({
    zeroPoints: scales.map(() => 2 ** (bits - 1)),
  }),
};

const plainCases = cases({ zeroPoints: fc.constant(false), largest: 129 });

const noSum = cases({ largest: 33 }).map((value): QuantizedCase => ({ ...value, k: 0, bias: true }));

/** Cases that add to C; whole numbers stay whole. */
const adding = (options?: CaseOptions): Arbitrary<QuantizedCase> =>
  fc.tuple(cases(options), fc.constantFrom(1, -1, 2, 0)).map(([value, beta]) => ({ ...value, beta }));

/** Few and many rows, results that pairs of f16 do not fill, a bias and an activation. C is the fourth operand. */
const addingCases: readonly QuantizedCase[] = [
  quantizedCase({ m: 1, n: 300, k: 256, beta: 1, placement: { before: [8, 0, 64, 2], shared: false } }),
  quantizedCase({ m: 1, n: 34, k: 160, beta: -1, bits: 8 }),
  quantizedCase({ m: 7, n: 31, k: 128, beta: 1, bias: true, activation: "silu" }),
  quantizedCase({ m: 70, n: 40, k: 96, beta: 2, bias: true }),
  quantizedCase({ m: 70, n: 33, k: 0, beta: 2, activation: "relu" }),
  quantizedCase({ m: 2, n: 12, k: 0, beta: -1 }),
  quantizedCase({ m: 2, n: 1, k: 2080, beta: 2, bias: true }),
];

export const quantizedGemmLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "quantizedGemm", name, operation: "quantizedGemm", dtype, run },
  });
  const epilogue = (name: string, run: Law["run"]): Law => ({
    ...law(`epilogue: ${name}`, run),
    exempt: unlessEpilogue("quantizedGemm", dtype),
  });
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(cases(), (value) => checkExact(context, dtype, value), { runs: 2 }),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(cases(), (value) => checkWithinBound(context, dtype, value), { runs: 2 }),
    ),
    law("is exact on whole numbers on larger shapes", (context) =>
      context.forEach(largeCases, (value) => checkExact(context, dtype, value), { quick: 8 }),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases.toReversed(), (value) => checkWithinBound(context, dtype, value), {
        quick: 8,
      }),
    ),
    law("does not round scales, weights or partial sums to fewer bits", (context) =>
      context.forAll(
        cases({ largest: 33, data: fc.constantFrom("normal", "cancelling") }).map((value) => ({
          ...value,
          k: Math.min(value.k, 8),
        })),
        (value) => checkWithinBound(context, dtype, value),
      ),
    ),
    law("brings back the weights that fromGguf and quantize have stored", (context) =>
      context.forEach(sources(), async (source) => {
        for (const rows of [1, 4, 40]) await bringsBack(context, dtype, source, Math.min(rows, source.k));
      }),
    ),
    ...Object.entries(changes).map(([name, change]) =>
      law(`takes no notice of ${name}`, (context) =>
        context.forAll(plainCases, async (value) => {
          const operands = integerOperands(value, dtype);
          const plain = await run(context, dtype, value, operands);
          const other = { ...operands, ...change(value, operands) };
          const { got } = await run(context, dtype, value, other);
          const values = plain.expected.places.map((place) => plain.got[place]!);
          measure(context, extentsOf(value), got, { ...plain.expected, values }, () => 0);
        }),
      ),
    ),
    law("adds to beta times C, exactly on whole numbers", (context) =>
      context.forAll(adding({ largest: 129 }), (value) => checkExact(context, dtype, value)),
    ),
    law("adds to beta times C, within the error bound, before the epilogue", (context) =>
      context.forEach(addingCases, (value) => checkWithinBound(context, dtype, value)),
    ),
    ...roundedLaws(dtype, law),
    law("touches nothing but the elements of C", (context) =>
      context.forAll(cases({ placement: oddPlacement, largest: 129 }), (value) =>
        checkWithinBound(context, dtype, value),
      ),
    ),
    epilogue("is exact on whole numbers", (context) =>
      context.forAll(finished(cases(), wholeFinishes), (value) => checkExact(context, dtype, value)),
    ),
    epilogue("stays within the error bound", (context) =>
      context.forAll(finished(cases({ largest: 129 }), finishes), (value) =>
        checkWithinBound(context, dtype, value),
      ),
    ),
    epilogue("stays within the error bound on larger shapes", (context) =>
      context.forEach(finishedInTurn(largeCases), (value) => checkWithinBound(context, dtype, value), {
        quick: 6,
      }),
    ),
    epilogue("applies where k is 0", (context) =>
      context.forAll(finished(noSum, finishes), (value) =>
        checkWithinBound(context, dtype, { ...value, bias: true }),
      ),
    ),
  ];
}
