import { dtypeBytes, type QuantizeProblem } from "@backplane/core";
import { load, type Place, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, picked, remembering, throughEnd } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { exactSteps, type QuantizeSteps, quantize } from "./formula.js";

type Problem = QuantizeProblem<ReferenceMemory>;

const nearest = "quantize f32: stores the nearest numbers";
const larger = "quantize f32: stores the nearest numbers on larger shapes";
const halves = "quantize f32: rounds halves up, and what is next to them to the nearest number";
const multiples = "quantize f32: keeps whole multiples of a scale";
const host = "quantize f32: stores what quantize of the host does";
const read = "quantize f32: stores what quantizedGemm reads";

/** The formula with other steps. */
function computed(p: Problem, steps: Partial<QuantizeSteps>): void {
  const hasZeroPoints = p.zeroPoints !== undefined;
  const results = quantize(p, load(p.input, p.dtype), hasZeroPoints, { ...exactSteps, ...steps });
  const put = (region: Place, dtype: "u8" | "f32" | "f16", values: Float64Array) => {
    const store = storeInto(region, dtype);
    for (const [i, value] of values.entries()) store(i, value);
  };
  put(p.b, "u8", results.b);
  put(p.scales, p.scaleType, results.scales);
  if (p.zeroPoints !== undefined) put(p.zeroPoints, "u8", results.zeroPoints);
}

/** Changes results after they are written. */
function changed(
  region: Place,
  dtype: "u8" | "f32" | "f16",
  change: (value: number, i: number) => number,
): void {
  const store = storeInto(region, dtype);
  for (const [i, value] of load(region, dtype).entries()) store(i, change(value, i));
}

/** Defects of quantize. */
export const quantizeMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "rounds halves of a quantized step to even",
    operation: "quantize",
    defect: "numerics",
    description: "As instructions that round do.",
    killedBy: [halves, host],
    create: () =>
      replaced("quantize", (p) =>
        computed(p, {
          round(weight, scale) {
            const quotient = weight / scale;
            const up = Math.floor(quotient + 0.5);
            return up - quotient === 0.5 && up % 2 !== 0 ? up - 1 : up;
          },
        }),
      ),
  },
  {
    name: "rounds halves of a quantized step away from 0",
    operation: "quantize",
    defect: "numerics",
    description: "As round of C does, with which magnitudes are rounded and signs put back.",
    killedBy: [halves, host],
    create: () =>
      replaced("quantize", (p) =>
        computed(p, {
          round: (weight, scale) => Math.sign(weight) * Math.floor(Math.abs(weight) / scale + 0.5),
        }),
      ),
  },
  {
    name: "multiplies weights by the reciprocal of a scale in f32",
    operation: "quantize",
    defect: "numerics",
    description:
      "One division for each block; a half is missed, and a number next to a half is taken for one.",
    killedBy: [halves],
    create: () =>
      replaced("quantize", (p) =>
        computed(p, {
          round: (weight, scale) => Math.floor(Math.fround(weight * Math.fround(1 / scale)) + 0.5),
        }),
      ),
  },
  {
    name: "cuts the fractions of quantized steps off",
    operation: "quantize",
    defect: "numerics",
    description: "A conversion to whole numbers.",
    killedBy: [
      nearest,
      "quantize f32: moves weights by at most half a scale, or a whole one with zero points",
    ],
    create: () =>
      replaced("quantize", (p) => computed(p, { round: (weight, scale) => Math.trunc(weight / scale) })),
  },
  {
    name: "takes the largest weight for the largest magnitude",
    operation: "quantize",
    defect: "numerics",
    description: "Negative weights do not count for the scale.",
    killedBy: [nearest],
    create: () =>
      replaced("quantize", (p) =>
        computed(p, {
          scaleOf: (low, high, shape, hasZeroPoints) =>
            exactSteps.scaleOf(hasZeroPoints ? low : 0, high, shape, hasZeroPoints),
        }),
      ),
  },
  {
    name: "divides the largest magnitude by the lowest step",
    operation: "quantize",
    defect: "numerics",
    description: "8 or 128 in place of 7 or 127, as llama.cpp does for Q4_0.",
    killedBy: [nearest, multiples],
    create: () =>
      replaced("quantize", (p) =>
        computed(p, {
          scaleOf(low, high, shape, hasZeroPoints) {
            const share = hasZeroPoints ? 1 : (2 ** (shape.bits - 1) - 1) / 2 ** (shape.bits - 1);
            return exactSteps.scaleOf(low * share, high * share, shape, hasZeroPoints);
          },
        }),
      ),
  },
  {
    name: "quantizes by scales before they are rounded to f16",
    operation: "quantize",
    defect: "numerics",
    description: "What is stored for a weight belongs to another scale than the one that is stored.",
    killedBy: [nearest],
    create: () =>
      replaced("quantize", (p) => {
        if (p.scaleType !== "f16") return computed(p, {});
        const memory = new Uint8Array(2 * p.scales.byteLength);
        const scales = { memory, byteOffset: 0, byteLength: memory.length };
        computed({ ...p, scaleType: "f32", scales }, {});
        const values = load(scales, "f32");
        changed(p.scales, "f16", (_, i) => values[i]!);
      }),
  },
  {
    name: "leaves 0 out of the range of a block",
    operation: "quantize",
    defect: "numerics",
    description: "Weights on one side of 0 get finer steps, which no zero point can shift far enough.",
    killedBy: [larger],
    create: () =>
      replaced("quantize", (p, run) => {
        run(p);
        if (p.zeroPoints === undefined || p.bits !== 4) return;
        const weights = load(p.input, p.dtype);
        changed(p.scales, p.scaleType, (scale, i) => {
          const begin = Math.floor(i / p.blocks) * p.k + (i % p.blocks) * p.block;
          const end = Math.min(begin + p.block, (Math.floor(i / p.blocks) + 1) * p.k);
          const own = weights.subarray(begin, end);
          return Number.isNaN(scale) ? scale : (Math.max(...own) - Math.min(...own)) / (2 ** p.bits - 1);
        });
      }),
  },
  {
    name: "rounds zero points down",
    operation: "quantize",
    defect: "numerics",
    description: "A conversion to whole numbers.",
    killedBy: [nearest],
    create: () =>
      replaced("quantize", (p) =>
        computed(p, { zeroOf: (low, scale, last) => Math.min(Math.trunc(-low / scale), last) }),
      ),
  },
  {
    name: "lets a NaN among weights go by",
    operation: "quantize",
    defect: "numerics",
    description: "Comparisons with NaN are false, so that the largest magnitude is that of the others.",
    killedBy: ["quantize f32: makes NaN of scales that are no numbers of their type, and of no others"],
    create: () =>
      tampered("quantize", (p) => ({
        ...p,
        input: mapped(p.input, p.dtype, (x) => (Number.isNaN(x) ? 0 : x)),
      })),
  },
  {
    name: "flushes small weights before it quantizes them",
    operation: "quantize",
    defect: "numerics",
    description: "Arithmetic on subnormal numbers of f32.",
    killedBy: ["quantize f32: takes weights of any size"],
    create: () =>
      tampered("quantize", (p) => ({
        ...p,
        input: mapped(p.input, p.dtype, (x) => (Math.abs(x) < 2 ** -126 ? 0 : x)),
      })),
  },
  {
    name: "stores the first of two weights in the high half",
    operation: "quantize",
    defect: "indexing",
    description: "The other order of two weights of 4 bits.",
    killedBy: [nearest, multiples, read],
    create: () =>
      replaced("quantize", (p, run) => {
        run(p);
        if (p.bits === 4) changed(p.b, "u8", (byte) => (byte >> 4) | ((byte & 15) << 4));
      }),
  },
  {
    name: "finds blocks of rows as if k were whole blocks",
    operation: "quantize",
    defect: "stride",
    description: "A row is said to begin where the blocks of the one before it end.",
    killedBy: [nearest, read],
    create: () =>
      tampered("quantize", (p) => {
        const pitch = p.blocks * p.block;
        const last = p.n * p.k - 1;
        const place = (i: number) => Math.min(Math.floor(i / p.k) * pitch + (i % p.k), last);
        return {
          ...p,
          input: picked(
            p.input,
            p.dtype,
            Array.from({ length: p.n * p.k }, (_, i) => place(i)),
          ),
        };
      }),
  },
  {
    name: "counts what lies past k among the weights of a block",
    operation: "quantize",
    defect: "edge",
    description: "Whole blocks are read, into the next row.",
    killedBy: [nearest],
    create: () =>
      replaced("quantize", (p, run) => {
        const k = p.blocks * p.block;
        if (k === p.k) return run(p);
        const behind = load(throughEnd(p.input, p.dtype), p.dtype);
        const memory = new Uint8Array(p.n * k * dtypeBytes[p.dtype]);
        const wide: Place = { memory, byteOffset: 0, byteLength: memory.length };
        const store = storeInto(wide, p.dtype);
        for (let row = 0; row < p.n; row++)
          for (let i = 0; i < k; i++) store(row * k + i, behind[row * p.k + i] ?? 0);
        run({ ...p, k, input: wide });
      }),
  },
  {
    name: "leaves what lies past k as it was",
    operation: "quantize",
    defect: "edge",
    description: "Stores end with the weights.",
    killedBy: [nearest],
    create: () =>
      replaced("quantize", (p, run) => {
        const before = load(p.b, "u8");
        run(p);
        const rowBytes = (p.blocks * p.block * p.bits) / 8;
        const used = Math.ceil((p.k * p.bits) / 8);
        changed(p.b, "u8", (byte, i) => (i % rowBytes < used ? byte : before[i]!));
      }),
  },
  {
    name: "leaves out blocks beyond a grid",
    operation: "quantize",
    defect: "edge",
    description: "One workgroup takes one block, and a grid has 65,535 of them.",
    killedBy: [larger],
    create: () =>
      replaced("quantize", (p, run) => {
        const before = load(p.scales, p.scaleType);
        run(p);
        changed(p.scales, p.scaleType, (scale, i) => (i < 65_535 ? scale : before[i]!));
      }),
  },
  {
    name: "stores a word of zero points where less is left",
    operation: "quantize",
    defect: "edge",
    description: "Bytes are stored four at a time.",
    killedBy: ["quantize f32: touches nothing but its results"],
    create: () =>
      replaced("quantize", (p, run) => {
        run(p);
        if (p.zeroPoints === undefined) return;
        const count = p.n * p.blocks;
        const store = storeInto(throughEnd(p.zeroPoints, "u8"), "u8");
        for (let i = count; i % 4 !== 0; i++) store(i, 0);
      }),
  },
  {
    name: "keeps weights of an earlier call to be quantized",
    operation: "quantize",
    defect: "lifecycle",
    description: "Read once for each place in memory, whatever is written there later.",
    killedBy: ["ordering: quantize: uses its operands as they are at the call"],
    create: () => {
      const remember = remembering();
      return tampered("quantize", (p) => ({ ...p, input: remember(p.input) }));
    },
  },
];
