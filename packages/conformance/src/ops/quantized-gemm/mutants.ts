import { dtypeBytes, type QuantizedGemmProblem } from "@backplane/core";
import { load, type Place, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, remembering, throughEnd, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

type Problem = QuantizedGemmProblem<ReferenceMemory>;

/** The problem with zero points written out. */
function withZeroPoints(p: Problem): Problem & { readonly zeroPoints: Place } {
  if (p.zeroPoints !== undefined) return { ...p, zeroPoints: p.zeroPoints };
  const count = p.n * p.blocks;
  const memory = new Uint8Array(count).fill(2 ** (p.bits - 1));
  return { ...p, zeroPoints: { memory, byteOffset: 0, byteLength: count } };
}

/** Each block's scale (or zero point) taken from another place. */
function elsewhere(region: Place, dtype: "f32" | "f16" | "u8", place: (i: number) => number): Place {
  const values = load(region, dtype);
  return mapped(region, dtype, (_, i) => values[place(i)] ?? 1);
}

/**
 * A in multiples of a unit for each `block` numbers of a row, of which the largest has up to 2^bits.
 *
 * @param besideInfinities also where the largest is infinite
 */
function rounded(p: Problem, block: number, bits: number, { besideInfinities = false } = {}): Problem {
  if (p.k === 0) return p;
  const numbers = load(p.a, p.dtype);
  const unitOf = (i: number): number => {
    const [row, first] = [Math.floor(i / p.k) * p.k, Math.floor((i % p.k) / block) * block];
    let largest = 0;
    for (let at = first; at < Math.min(first + block, p.k); at++)
      largest = Math.max(largest, Math.abs(numbers[row + at]!));
    return 2 ** (Math.floor(Math.log2(largest)) + 1 - bits);
  };
  const change = (x: number, i: number): number => {
    const unit = unitOf(i);
    if (unit === 0) return x;
    return Number.isFinite(unit) || besideInfinities ? Math.round(x / unit) * unit : x;
  };
  return { ...p, a: mapped(p.a, p.dtype, change) };
}

const exactLaw = "quantizedGemm f32: is exact on whole numbers";
const boundLaw = "quantizedGemm f32: stays within the error bound";
const largeLaw = "quantizedGemm f32: is exact on whole numbers on larger shapes";
const addsLaw = "quantizedGemm f32: adds to beta times C, exactly on whole numbers";
const addsBoundLaw = "quantizedGemm f32: adds to beta times C, within the error bound, before the epilogue";
const roundedLaw = "quantizedGemm f32: stays within the wider error bound where A may be rounded";
const roundedBlocksLaw =
  "quantizedGemm f32: rounds A by no more than the largest number of the same block allows";
const bringsBackLaw = "quantizedGemm f32: brings back the weights that fromGguf and quantize have stored";

/** Defects of quantizedGemm. */
export const quantizedGemmMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "takes the high half of a byte first",
    operation: "quantizedGemm",
    defect: "indexing",
    description: "The other order of two weights of 4 bits.",
    killedBy: [exactLaw, bringsBackLaw],
    create: () =>
      tampered("quantizedGemm", (p) =>
        p.bits === 4 ? { ...p, b: mapped(p.b, "u8", (byte) => (byte >> 4) | ((byte & 15) << 4)) } : p,
      ),
  },
  {
    name: "takes the halves of a file's block for neighbours",
    operation: "quantizedGemm",
    defect: "indexing",
    description: "Weights i and i + 16 of a block share a byte, as GGUF has them.",
    killedBy: [exactLaw, bringsBackLaw],
    create: () =>
      tampered("quantizedGemm", (p) => {
        if (p.bits !== 4) return p;
        const bytes = load(p.b, "u8");
        const weight = (block: number, i: number) =>
          Math.floor(bytes[block * 16 + (i % 16)]! / (i < 16 ? 1 : 16)) % 16;
        const moved = (_: number, at: number) => {
          const [block, i] = [Math.floor(at / 16), 2 * (at % 16)];
          return weight(block, i) + 16 * weight(block, i + 1);
        };
        return { ...p, b: mapped(p.b, "u8", moved) };
      }),
  },
  {
    name: "takes bytes for signed ones",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "As GGUF's Q8_0 has them.",
    killedBy: [exactLaw, bringsBackLaw],
    create: () =>
      tampered("quantizedGemm", (p) =>
        p.bits === 8 ? { ...p, b: mapped(p.b, "u8", (byte) => byte ^ 0x80) } : p,
      ),
  },
  {
    name: "takes the zero point of the block before",
    operation: "quantizedGemm",
    defect: "indexing",
    description: "Off by one, but for the first block of all.",
    killedBy: [exactLaw, boundLaw],
    create: () =>
      tampered("quantizedGemm", (p) =>
        p.zeroPoints === undefined
          ? p
          : { ...p, zeroPoints: elsewhere(p.zeroPoints, "u8", (i) => Math.max(i - 1, 0)) },
      ),
  },
  {
    name: "takes zero points as being one more",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "Some formats store a zero point less 1.",
    killedBy: [exactLaw, boundLaw],
    create: () =>
      tampered("quantizedGemm", (p) =>
        p.zeroPoints === undefined ? p : { ...p, zeroPoints: mapped(p.zeroPoints, "u8", (z) => z + 1) },
      ),
  },
  {
    name: "finds scales as if k were whole blocks",
    operation: "quantizedGemm",
    defect: "stride",
    description: "k / block rounded down is taken for the scales of a row.",
    killedBy: [exactLaw, boundLaw],
    create: () =>
      tampered("quantizedGemm", (p) => {
        const whole = Math.max(Math.floor(p.k / p.block), 1);
        const place = (i: number) => Math.floor(i / p.blocks) * whole + (i % p.blocks);
        return { ...p, scales: elsewhere(p.scales, p.scaleType, place) };
      }),
  },
  {
    name: "takes one scale for every 32 weights of any block",
    operation: "quantizedGemm",
    defect: "stride",
    description: "Blocks of 64 and 128 read the scales of others.",
    killedBy: [exactLaw, bringsBackLaw],
    create: () =>
      replaced("quantizedGemm", (p, run) => {
        if (p.block === 32 || p.k === 0) return run(p);
        const blocks = p.blocks * (p.block / 32);
        const scales = load(p.scales, p.scaleType);
        const memory = new Uint8Array(4 * p.n * blocks);
        const spread: Place = { memory, byteOffset: 0, byteLength: memory.length };
        const store = storeInto(spread, "f32");
        for (let i = 0; i < p.n * blocks; i++)
          store(i, scales[Math.min(Math.floor(i / blocks) * p.blocks + (i % blocks), scales.length - 1)]!);
        const zeroPoints = withZeroPoints(p).zeroPoints.memory;
        const start = withZeroPoints(p).zeroPoints.byteOffset;
        const zeros = Uint8Array.from(
          { length: p.n * blocks },
          (_, i) => zeroPoints[start + Math.floor(i / (p.block / 32))]!,
        );
        const written = { memory: zeros, byteOffset: 0, byteLength: zeros.length };
        run({ ...p, block: 32, blocks, scaleType: "f32", scales: spread, zeroPoints: written });
      }),
  },
  {
    name: "forgets the last part of a block",
    operation: "quantizedGemm",
    defect: "edge",
    description: "Whole blocks alone are summed where there are any.",
    killedBy: [exactLaw, boundLaw],
    create: () =>
      replaced("quantizedGemm", (p, run) => {
        const whole = p.k - (p.k % p.block);
        if (whole === 0 || whole === p.k) return run(p);
        const a = load(p.a, p.dtype);
        run({ ...p, a: mapped(p.a, p.dtype, (_, i) => (i % p.k < whole ? a[i]! : 0)) });
      }),
  },
  {
    name: "sums what lies past k",
    operation: "quantizedGemm",
    defect: "edge",
    description: "Whole blocks are read of A as well, into its next row.",
    killedBy: [exactLaw, "quantizedGemm f32: takes no notice of bytes past k"],
    create: () =>
      replaced("quantizedGemm", (p, run) => {
        const k = p.blocks * p.block;
        if (k === p.k) return run(p);
        const behind = load(throughEnd(p.a, p.dtype), p.dtype);
        const memory = new Uint8Array(p.m * k * 4);
        const wide: Place = { memory, byteOffset: 0, byteLength: p.m * k * dtypeBytes[p.dtype] };
        const store = storeInto(wide, p.dtype);
        for (let row = 0; row < p.m; row++)
          for (let i = 0; i < k; i++) store(row * k + i, behind[row * p.k + i] ?? 0);
        run({ ...p, k, a: wide });
      }),
  },
  {
    name: "stops at the first 2048 weights of a row",
    operation: "quantizedGemm",
    defect: "edge",
    description: "As many of A as memory shared by a workgroup holds.",
    killedBy: [largeLaw],
    create: () =>
      tampered("quantizedGemm", (p) => ({
        ...p,
        a: mapped(p.a, p.dtype, (x, i) => (i % p.k < 2048 ? x : 0)),
      })),
  },
  {
    name: "leaves out rows of B beyond a grid",
    operation: "quantizedGemm",
    defect: "edge",
    description: "One workgroup takes one row, and a grid has 65,535 of them.",
    killedBy: [largeLaw],
    create: () =>
      replaced("quantizedGemm", (p, run) => {
        const before = load(p.c, p.dtype);
        run(p);
        const store = storeInto(p.c, p.dtype);
        for (const [i, value] of before.entries()) if (i % p.n >= 65_535) store(i, value);
      }),
  },
  {
    name: "drops the bias of a single row",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "The kernel for one row has no epilogue but the activation.",
    killedBy: ["quantizedGemm f32: epilogue: stays within the error bound on larger shapes"],
    create: () =>
      tampered("quantizedGemm", (p) =>
        p.m === 1 && p.bias !== undefined ? { ...p, bias: mapped(p.bias, p.dtype, () => 0) } : p,
      ),
  },
  {
    name: "adds all of C whatever beta is",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "Takes beta for a flag, as other operations have one.",
    killedBy: [addsLaw, addsBoundLaw],
    create: () => tampered("quantizedGemm", (p) => ({ ...p, beta: p.beta === 0 ? 0 : 1 })),
  },
  {
    name: "forgets C if there is nothing to sum",
    operation: "quantizedGemm",
    defect: "edge",
    description: "k = 0 leaves the bias alone.",
    killedBy: [addsBoundLaw],
    create: () => tampered("quantizedGemm", (p) => (p.k === 0 ? { ...p, beta: 0 } : p)),
  },
  {
    name: "multiplies C by beta = 0",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "A NaN in C reaches the result.",
    killedBy: [exactLaw, boundLaw],
    create: () =>
      replaced("quantizedGemm", (p, run) => {
        const before = load(p.c, p.dtype);
        run(p);
        if (p.beta !== 0) return;
        const store = storeInto(p.c, p.dtype);
        for (const [i, value] of load(p.c, p.dtype).entries()) store(i, value + 0 * before[i]!);
      }),
  },
  {
    name: "rounds scales in f32 to f16",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "One kernel for both types of scales.",
    killedBy: ["quantizedGemm f32: does not round scales, weights or partial sums to fewer bits", boundLaw],
    create: () =>
      tampered("quantizedGemm", (p) =>
        p.scaleType === "f32" ? { ...p, scales: mapped(p.scales, "f32", (scale) => truncate(scale, 10)) } : p,
      ),
  },
  {
    name: "rounds A to f16",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "What a kernel for f16 does with f32.",
    killedBy: ["quantizedGemm f32: does not round scales, weights or partial sums to fewer bits"],
    create: () =>
      tampered("quantizedGemm", (p) =>
        p.dtype === "f32" ? { ...p, a: mapped(p.a, "f32", (x) => truncate(x, 10)) } : p,
      ),
  },
  {
    name: "rounds A where nobody permits it",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "The kernel for rounded numbers takes every call.",
    killedBy: ["quantizedGemm f32: does not round scales, weights or partial sums to fewer bits"],
    create: () => tampered("quantizedGemm", (p) => rounded(p, p.block, 15)),
  },
  {
    name: "rounds A to 8 bits where it may be rounded",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "As other libraries do.",
    killedBy: [roundedLaw, roundedBlocksLaw],
    create: () => tampered("quantizedGemm", (p) => (p.mayRoundA ? rounded(p, p.block, 7) : p)),
  },
  {
    name: "rounds A by the largest number of its row",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "One unit for the row, and not one for each block.",
    killedBy: [roundedBlocksLaw],
    create: () => tampered("quantizedGemm", (p) => (p.mayRoundA ? rounded(p, p.k, 15) : p)),
  },
  {
    name: "rounds numbers beside an infinity",
    operation: "quantizedGemm",
    defect: "numerics",
    description: "The unit is infinite then.",
    killedBy: ["quantizedGemm f32: rounds nothing beside a NaN or an infinity"],
    create: () =>
      tampered("quantizedGemm", (p) =>
        p.mayRoundA ? rounded(p, p.block, 15, { besideInfinities: true }) : p,
      ),
  },
  {
    name: "stores a pair where one result is left",
    operation: "quantizedGemm",
    defect: "edge",
    description: "Results are stored in pairs.",
    killedBy: ["quantizedGemm f32: touches nothing but the elements of C"],
    create: () =>
      replaced("quantizedGemm", (p, run) => {
        run(p);
        storeInto(throughEnd(p.c, p.dtype), p.dtype)(p.m * p.n, 0);
      }),
  },
  {
    name: "keeps quantized weights of an earlier call",
    operation: "quantizedGemm",
    defect: "lifecycle",
    description: "Dequantized once for each place in memory, whatever is written there later.",
    killedBy: ["ordering: quantizedGemm: uses its operands as they are at the call"],
    create: () => {
      const remember = remembering();
      return tampered("quantizedGemm", (p) => ({ ...p, b: remember(p.b) }));
    },
  },
];
