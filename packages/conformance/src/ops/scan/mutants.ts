import { identityOf, type ScanProblem } from "@backplane/core";
import { roundTo } from "../../data.js";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { combinerOf, scan } from "./formula.js";

type Problem = ScanProblem<ReferenceMemory>;

/** Computes each row, from its first element in the order of the scan, with a function of its own. */
function byRows(
  p: Problem,
  compute: (row: readonly number[], whole: readonly number[]) => readonly number[],
): void {
  const { outer, length, inner, reverse, dtype } = p;
  const values = load(p.input, dtype);
  const store = storeInto(p.output, dtype);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const places = Array.from(
        { length },
        (_, j) => (o * length + (reverse ? length - 1 - j : j)) * inner + i,
      );
      const row = places.map((at) => values[at]!);
      const results = compute(row, inclusive(p, row));
      for (const [j, at] of places.entries()) store(at, results[j]!);
    }
}

function inclusive(p: Problem, row: readonly number[]): readonly number[] {
  const results: number[] = [];
  const shape = { ...p, outer: 1, length: row.length, inner: 1, reverse: false };
  scan(shape, Float64Array.from(row), (j, value) => {
    results[j] = value;
  });
  return results;
}

/** Defects of scan. */
export const scanMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "runs along the last axis",
    operation: "scan",
    defect: "stride",
    description: "Whatever the axis is: neighbours are taken for a row.",
    killedBy: ["scan f32: is exact on whole numbers", "scan u32: sum: matches the formula"],
    create: () =>
      tampered("scan", (p) => ({ ...p, outer: 1, length: p.outer * p.length * p.inner, inner: 1 })),
  },
  {
    name: "leaves no element out",
    operation: "scan",
    defect: "edge",
    description: "Exclusive results hold their own element.",
    killedBy: ["scan f32: is exact on whole numbers", "scan i32: max: matches the formula"],
    create: () => tampered("scan", (p) => ({ ...p, exclusive: false })),
  },
  {
    name: "runs forward only",
    operation: "scan",
    defect: "order",
    description: "Reverse is forgotten.",
    killedBy: ["scan f16: is exact on whole numbers", "scan i32: sum: matches the formula"],
    create: () => tampered("scan", (p) => ({ ...p, reverse: false })),
  },
  {
    name: "forgets what parts before the last one hold",
    operation: "scan",
    defect: "indexing",
    description: "A tile gets the total of the tile before it, not of all before.",
    killedBy: ["scan f32: is exact on larger shapes", "scan u32: sum: matches it on larger shapes"],
    create: () =>
      replaced("scan", (p) => {
        const combine = combinerOf(p.kind, p.dtype);
        const none = identityOf(p.kind, p.dtype);
        byRows(p, (row) => {
          let [before, total] = [none, none];
          return row.map((x, j) => {
            if (j % 1024 === 0) [before, total] = [total, none];
            const without = combine(before, total);
            total = combine(total, x);
            return p.exclusive ? without : combine(before, total);
          });
        });
      }),
  },
  {
    name: "begins maxima with 0",
    operation: "scan",
    defect: "edge",
    description: "Maxima of negative numbers are 0.",
    killedBy: ["scan f32: max: matches the formula", "scan i32: max: matches it on larger shapes"],
    create: () =>
      replaced("scan", (p) =>
        byRows(p, (_row, whole) => (p.kind === "max" ? whole.map((x) => Math.max(x, 0)) : whole)),
      ),
  },
  {
    name: "keeps one running sum",
    operation: "scan",
    defect: "numerics",
    description: "In f32: later terms lose their low bits.",
    killedBy: ["scan f32: sum: stays accurate over many elements"],
    create: () =>
      replaced("scan", (p) =>
        byRows(p, (row, whole) => {
          if (p.kind !== "sum" || p.dtype !== "f32") return whole;
          let sum = 0;
          return row.map((x) => {
            const before = sum;
            sum = Math.fround(sum + x);
            return p.exclusive ? before : sum;
          });
        }),
      ),
  },
  {
    name: "rounds the carry to f16",
    operation: "scan",
    defect: "numerics",
    description: "Each step is rounded, not the result.",
    killedBy: ["scan f16: sum: matches it on larger shapes"],
    create: () =>
      replaced("scan", (p) => {
        byRows(p, (row, whole) => {
          if (p.kind !== "sum" || p.dtype !== "f16") return whole;
          let sum = 0;
          return row.map((x) => {
            const before = sum;
            sum = roundTo("f16", sum + x);
            return p.exclusive ? before : sum;
          });
        });
      }),
  },
  {
    name: "stops sums at the largest integer",
    operation: "scan",
    defect: "numerics",
    description: "Sums stop at the largest number instead of wrapping around.",
    killedBy: ["scan i32: sum: matches the formula"],
    create: () =>
      replaced("scan", (p) =>
        byRows(p, (row, whole) => {
          if (p.kind !== "sum" || p.dtype !== "i32") return whole;
          let sum = 0;
          return row.map((x) => {
            const before = sum;
            sum = Math.min(Math.max(sum + x, -(2 ** 31)), 2 ** 31 - 1);
            return p.exclusive ? before : sum;
          });
        }),
      ),
  },
  {
    name: "loses NaN on the way",
    operation: "scan",
    defect: "numerics",
    description: "As comparisons with > alone do.",
    killedBy: ["numerics f32: scan: keeps NaN from its place on"],
    create: () =>
      replaced("scan", (p, run) => {
        if (p.kind !== "max" && p.kind !== "min") return run(p);
        const lowest = p.kind === "max" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
        return run({ ...p, input: mapped(p.input, p.dtype, (x) => (Number.isNaN(x) ? lowest : x)) });
      }),
  },
  {
    name: "keeps totals of an earlier call",
    operation: "scan",
    defect: "lifecycle",
    description: "By the shape: a later call begins with the first element of the first call.",
    killedBy: ["scan f32: is exact on larger shapes"],
    create: () => {
      const kept = new Map<string, number>();
      return replaced("scan", (p) => {
        const call = [p.kind, p.outer, p.length, p.inner].join();
        byRows(p, (row, whole) => {
          const first = kept.get(call) ?? row[0]!;
          kept.set(call, first);
          return p.kind === "sum" ? whole.map((x) => x + first - row[0]!) : whole;
        });
      });
    },
  },
  {
    name: "writes one element more",
    operation: "scan",
    defect: "memory",
    description: "The total, behind the last result.",
    killedBy: ["scan f32: touches nothing but the elements of its output"],
    create: () =>
      replaced("scan", (p, run) => {
        run(p);
        const { memory, byteOffset, byteLength } = p.output;
        memory.fill(0, byteOffset + byteLength, byteOffset + byteLength + 4);
      }),
  },
];
