import { type FloatType, isComparison } from "@backplane/core";
import { floatFormats, load, storeInto } from "../../elements.js";
import { mapped, throughEnd } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { functionOf } from "./formula.js";

const f32 = Math.fround;

/** Defects of binary. */
export const binaryMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "rounds n up to a vector",
    operation: "binary",
    defect: "edge",
    description: "Stores whole vectors of four at the end.",
    killedBy: [
      "binary f32: touches nothing but the elements of its output",
      "binary f16: touches nothing but the elements of its output",
    ],
    create: () =>
      replaced("binary", (p, run) => {
        run(p);
        if (isComparison(p.kind)) return;
        const store = storeInto(throughEnd(p.output, p.dtype), p.dtype);
        for (let i = p.n; i % 4 !== 0; i++) store(i, 0);
      }),
  },
  {
    name: "gives no power of a negative number",
    operation: "binary",
    defect: "numerics",
    description: "exp2(b log2 a) without a thought for the sign of a.",
    killedBy: ["binary f32: pow: stays within its error bound"],
    create: () =>
      replaced("binary", (p, run) => {
        const noSign = (x: number) => (x < 0 ? Number.NaN : x);
        if (p.kind !== "pow" || !("region" in p.a)) return run(p);
        run({ ...p, a: { ...p.a, region: mapped(p.a.region, p.dtype, noSign) } });
      }),
  },
  {
    name: "broadcasts by repetition only",
    operation: "binary",
    defect: "stride",
    description: "Takes element i modulo the size of b: right for a row, wrong for a column.",
    killedBy: ["binary f32: broadcasts as NumPy does", "binary f32: broadcasts larger shapes"],
    create: () =>
      replaced("binary", (p, run) => {
        if (!("region" in p.a) || !("region" in p.b) || isComparison(p.kind)) return run(p);
        const [a, b] = [load(p.a.region, p.dtype), load(p.b.region, p.dtype)];
        const store = storeInto(p.output, p.dtype);
        const apply = functionOf(p.kind, p.dtype);
        for (let i = 0; i < p.n; i++) store(i, apply(a[i % a.length]!, b[i % b.length]!));
      }),
  },
  {
    name: "steps along the first axis as along the second",
    operation: "binary",
    defect: "stride",
    description: "Right where b follows the output or repeats along its last axis.",
    killedBy: [
      "binary f32: sub: stays within its error bound",
      "binary f32: mul: stays within its error bound",
    ],
    create: () =>
      tampered("binary", (p) => {
        if (!("region" in p.b) || p.shape.length < 3) return p;
        const [first, second, ...rest] = p.b.strides;
        const strides = first === 0 || second === 0 ? [second!, first!, ...rest] : p.b.strides;
        return { ...p, b: { ...p.b, strides } };
      }),
  },
  {
    name: "walks along eight axes only",
    operation: "binary",
    defect: "indexing",
    description: "A kernel with so many loops, and shapes with more axes.",
    killedBy: ["binary f32: broadcasts any number of axes", "binary f16: broadcasts any number of axes"],
    create: () =>
      tampered("binary", (p) => {
        if (!("region" in p.b)) return p;
        const outer = p.shape.length - 8;
        return { ...p, b: { ...p.b, strides: p.b.strides.map((stride, i) => (i < outer ? 0 : stride)) } };
      }),
  },
  {
    name: "ends at the largest number",
    operation: "binary",
    defect: "numerics",
    description: "Saturates where it should overflow, though it declares infinities kept.",
    killedBy: [
      "numerics f32: binary: takes and gives infinities, and overflows to them",
      "numerics f16: binary: takes and gives infinities, and overflows to them",
    ],
    create: () =>
      replaced("binary", (p, run) => {
        run(p);
        if (p.kind !== "add" && p.kind !== "mul") return;
        const largest = floatFormats[p.dtype as FloatType].largest;
        const store = storeInto(p.output, p.dtype);
        for (const [i, y] of load(p.output, p.dtype).entries())
          if (Math.abs(y) === Number.POSITIVE_INFINITY) store(i, Math.sign(y) * largest);
      }),
  },
  {
    name: "swaps a scalar with the other operand",
    operation: "binary",
    defect: "indexing",
    description: "2 - x computed as x - 2.",
    killedBy: ["binary f32: takes a scalar for either operand"],
    create: () => tampered("binary", (p) => ("scalar" in p.a ? { ...p, a: p.b, b: p.a } : p)),
  },
  {
    name: "cuts sums off instead of rounding them",
    operation: "binary",
    defect: "numerics",
    description: "Rounds towards zero, though it declares rounding to nearest.",
    killedBy: ["binary f32: add: stays within its error bound"],
    create: () =>
      replaced("binary", (p, run) => {
        run(p);
        if (p.kind !== "add" || p.dtype !== "f32" || !("region" in p.a) || !("region" in p.b)) return;
        if (p.shape.length !== 1 || p.a.strides[0] !== 1 || p.b.strides[0] !== 1) return;
        const [a, b] = [load(p.a.region, p.dtype), load(p.b.region, p.dtype)];
        const store = storeInto(p.output, p.dtype);
        for (let i = 0; i < p.n; i++) {
          const sum = a[i]! + b[i]!;
          const isAway = Math.abs(f32(sum)) > Math.abs(sum);
          store(i, isAway ? f32(sum) * (1 - 2 ** -24) : sum);
        }
      }),
  },
  {
    name: "flushes subnormal numbers",
    operation: "binary",
    defect: "numerics",
    description: "Though it declares them kept.",
    killedBy: ["numerics f32: binary: reads and writes subnormal numbers"],
    create: () =>
      replaced("binary", (p, run) => {
        run(p);
        if (isComparison(p.kind)) return;
        const store = storeInto(p.output, p.dtype);
        for (const [i, y] of load(p.output, p.dtype).entries())
          if (y !== 0 && Math.abs(y) < 2 ** -126) store(i, 0);
      }),
  },
];
