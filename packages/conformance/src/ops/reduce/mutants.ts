import {
  type BackendError,
  type ComputeBackend,
  isTruthReduction,
  type ReduceProblem,
} from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { offsets } from "../places.js";

/** Defects of reduce. */
export const reduceMutants = ({ tampered, replaced, altered }: Builder): readonly Mutant[] => [
  {
    name: "reduces powers of two only",
    operation: "reduce",
    defect: "edge",
    description: "A tree that forgets the rest of an extent that is no power of two.",
    killedBy: [
      "reduce f32: sum: is exact on whole numbers",
      "reduce f32: max: stays within the error bound",
      "reduce f32: sum: is exact on larger shapes",
    ],
    create: () =>
      tampered("reduce", (p) => {
        const floor = (extent: number) => 2 ** Math.floor(Math.log2(extent));
        return { ...p, reduced: p.reduced.map((axis) => ({ ...axis, extent: floor(axis.extent) })) };
      }),
  },
  {
    name: "sums with one running f32",
    operation: "reduce",
    defect: "numerics",
    description: "Seen in three WebAssembly libraries: 4 million times 0.1 comes out 4% off.",
    killedBy: ["reduce f32: sum: stays accurate over many elements"],
    create: () =>
      replaced("reduce", (p, run) => {
        if (p.kind !== "sum") return run(p);
        runningSums(p);
      }),
  },
  {
    name: "walks along four kept axes only",
    operation: "reduce",
    defect: "indexing",
    description: "A kernel with so many loops, and data with more axes.",
    killedBy: ["reduce f32: takes any number of axes", "reduce f16: takes any number of axes"],
    create: () =>
      tampered("reduce", (p) => ({
        ...p,
        kept: p.kept.map((axis, i) => (i < p.kept.length - 4 ? { ...axis, stride: 0 } : axis)),
      })),
  },
  {
    name: "takes kept axes for neighbours",
    operation: "reduce",
    defect: "stride",
    description: "As if all reduced axes came last.",
    killedBy: [
      "reduce f32: sum: stays within the error bound",
      "reduce f32: mean: stays within the error bound",
    ],
    create: () =>
      tampered("reduce", (p) => {
        let stride = p.kept.at(-1)?.stride ?? 1;
        const kept = p.kept.toReversed().map(({ extent }) => {
          const axis = { extent, stride };
          stride *= extent;
          return axis;
        });
        return { ...p, kept: kept.reverse() };
      }),
  },
  {
    name: "forgets an element where pieces of a long row meet",
    operation: "reduce",
    defect: "edge",
    description: "Long rows are reduced in pieces of 16,384; what the bound of a long sum forgives.",
    killedBy: ["reduce f32: sum: is exact on larger shapes", "reduce f16: sum: is exact on larger shapes"],
    create: () =>
      replaced("reduce", (p, run) => {
        run(p);
        const last = p.reduced.at(-1);
        if (p.kind !== "sum" || p.kept.length > 0 || last === undefined || last.extent <= 2 ** 14) return;
        const lost = load(p.input, p.dtype)[2 ** 14]!;
        const store = storeInto(p.output, p.dtype);
        store(0, load(p.output, p.dtype)[0]! - lost);
      }),
  },
  {
    name: "takes a freed handle for its output",
    operation: "reduce",
    defect: "lifecycle",
    description: "Only inputs are looked up with care.",
    killedBy: ["errors: reduce: freed, foreign and forged handles are refused"],
    create: () =>
      altered((right) => ({
        reduce(args) {
          try {
            right.reduce(args);
          } catch (error) {
            const { code, argument } = error as BackendError;
            if (code !== "INVALID_HANDLE" || argument !== "output") throw error;
          }
        },
      })),
  },
  {
    name: "starts a maximum at 0",
    operation: "reduce",
    defect: "edge",
    description: "Right until all numbers are negative.",
    killedBy: ["reduce f32: max: stays within the error bound"],
    create: () =>
      replaced("reduce", (p, run) => {
        run(p);
        if (p.kind !== "max") return;
        const store = storeInto(p.output, p.dtype);
        for (const [i, value] of load(p.output, p.dtype).entries()) store(i, Math.max(value, 0));
      }),
  },
  {
    name: "reduces the inner of several axes only",
    operation: "reduce",
    defect: "indexing",
    description: "Takes the first reduced axis to be the only one.",
    killedBy: ["reduce f32: sum: stays within the error bound"],
    create: () => tampered("reduce", (p) => ({ ...p, reduced: p.reduced.slice(-1) })),
  },
  {
    name: "sums exponentials of numbers as they are",
    operation: "reduce",
    defect: "numerics",
    description: "ln(sum of e^x) as it is written, which overflows from 89 on.",
    killedBy: [
      "reduce f32: logSumExp: of equal numbers is their logarithm more, however large they are",
      "reduce f32: logSumExp: stays within the error bound",
    ],
    create: () => ofExponentials(replaced, (xs) => Math.log(Math.fround(sumOf(xs.map(Math.exp))))),
  },
  {
    name: "forgets the largest number after the logarithm",
    operation: "reduce",
    defect: "numerics",
    description: "The sum of e^(x - m) is found, and m is not added again.",
    killedBy: ["reduce f32: logSumExp: stays within the error bound"],
    create: () =>
      ofExponentials(replaced, (xs) => {
        const largest = Math.max(...xs);
        return Math.log(sumOf(xs.map((x) => Math.exp(x - largest))));
      }),
  },
  {
    name: "divides a mean by the whole count",
    operation: "reduce",
    defect: "numerics",
    description: "The mean over some axes, divided by all elements.",
    killedBy: ["reduce f32: mean: stays within the error bound"],
    create: () =>
      replaced("reduce", (p, run) => {
        run(p);
        if (p.kind !== "mean") return;
        const store = storeInto(p.output, p.dtype);
        for (const [i, value] of load(p.output, p.dtype).entries()) store(i, value / p.outputCount);
      }),
  },
  {
    name: "drops NaN from a maximum",
    operation: "reduce",
    defect: "numerics",
    description: "fmax semantics on a backend that declares NaN kept.",
    killedBy: ["numerics f32: reduce: gives NaN where one element is NaN"],
    create: () =>
      replaced("reduce", (p, run) => {
        if (p.kind !== "max") return run(p);
        run({
          ...p,
          input: mapped(p.input, p.dtype, (x) => (Number.isNaN(x) ? Number.NEGATIVE_INFINITY : x)),
        });
      }),
  },
  {
    name: "adds in a different order each time",
    operation: "reduce",
    defect: "numerics",
    description: "Atomic additions on a backend that declares itself deterministic.",
    killedBy: ["numerics f32: reduce: the same call on the same data gives the same bits"],
    create: () => {
      let calls = 0;
      return replaced("reduce", (p, run) =>
        p.kind === "sum" && calls++ % 2 === 1 ? runningSums(p) : run(p),
      );
    },
  },
  {
    name: "sums integers as f32",
    operation: "reduce",
    defect: "numerics",
    description: "Right for small numbers.",
    killedBy: ["reduce i32: sum: is exact", "reduce u32: sum: is exact"],
    create: () =>
      replaced("reduce", (p, run) => (p.kind === "sum" && p.dtype !== "f16" ? runningSums(p) : run(p))),
  },
  {
    name: "takes the largest unsigned integer as if it were signed",
    operation: "reduce",
    defect: "numerics",
    description: "One comparison for both types.",
    killedBy: ["reduce u32: max: is exact"],
    create: () =>
      replaced("reduce", (p, run) => {
        if (p.dtype !== "u32" || p.kind !== "max") return run(p);
        run({ ...p, dtype: "i32" });
      }),
  },
  {
    name: "starts a maximum of integers at 0",
    operation: "reduce",
    defect: "edge",
    description: "The identity of u32 for i32.",
    killedBy: ["reduce i32: max: is exact"],
    create: () =>
      replaced("reduce", (p, run) => {
        run(p);
        if (p.kind !== "max" || p.dtype !== "i32") return;
        const store = storeInto(p.output, p.dtype);
        for (const [i, value] of load(p.output, p.dtype).entries()) store(i, Math.max(value, 0));
      }),
  },
  {
    name: "saturates sums of integers along an axis",
    operation: "reduce",
    defect: "numerics",
    description: "Clamps where it must wrap around.",
    killedBy: ["reduce i32: sum: is exact on larger shapes"],
    create: () =>
      replaced("reduce", (p, run) => {
        if (p.kind !== "sum" || p.dtype !== "i32") return run(p);
        const values = load(p.input, p.dtype);
        const store = storeInto(p.output, p.dtype);
        const places = offsets(p.reduced);
        for (const [i, start] of offsets(p.kept).entries()) {
          const sum = places.reduce((total, place) => total + values[start + place]!, 0);
          store(i, Math.min(Math.max(sum, -(2 ** 31)), 2 ** 31 - 1));
        }
      }),
  },
  {
    name: "takes the lowest bit of a byte for its truth",
    operation: "reduce",
    defect: "numerics",
    description: "Right for 0, 1 and 255.",
    killedBy: ["reduce u8: any: is exact", "reduce u8: all: is exact"],
    create: () => misread(replaced, (x) => x & 1),
  },
  {
    name: "takes bytes as signed, and none below zero as true",
    operation: "reduce",
    defect: "numerics",
    description: "Wrong from 128 on.",
    killedBy: ["reduce u8: any: sees one byte at any place"],
    create: () => misread(replaced, (x) => (x < 128 ? x : 0)),
  },
  {
    name: "takes four truth values of a word for one",
    operation: "reduce",
    defect: "indexing",
    description: "A word is true if any of its bytes is, which is right for any.",
    killedBy: ["reduce u8: all: is exact", "reduce u8: all: sees one byte at any place"],
    create: () =>
      misread(replaced, (x, i, values) => {
        const word = values.subarray(i - (i % 4), i - (i % 4) + 4);
        return Math.max(x, ...word);
      }),
  },
  {
    name: "gives the largest byte for whether any is true",
    operation: "reduce",
    defect: "numerics",
    description: "As true as 1, but not 1.",
    killedBy: ["reduce u8: any: is exact"],
    create: () =>
      replaced("reduce", (p, run) => {
        if (p.kind !== "any") return run(p);
        const values = load(p.input, p.dtype);
        const store = storeInto(p.output, p.dtype);
        const places = offsets(p.reduced);
        for (const [i, start] of offsets(p.kept).entries())
          store(i, Math.max(...places.map((place) => values[start + place]!)));
      }),
  },
  {
    name: "forgets the last byte of truths that end inside a word",
    operation: "reduce",
    defect: "edge",
    description: "Four at a time, and a rest that is one short.",
    killedBy: ["reduce u8: any: sees one byte at any place"],
    create: () =>
      tampered("reduce", (p) =>
        isTruthReduction(p.kind)
          ? {
              ...p,
              reduced: p.reduced.map((axis) =>
                axis.stride === 1 && axis.extent % 4 !== 0 ? { ...axis, extent: axis.extent - 1 } : axis,
              ),
            }
          : p,
      ),
  },
  {
    name: "computes what it does not declare",
    operation: "reduce",
    defect: "errors",
    description: "supports() is false, and yet the call goes through.",
    killedBy: ["supports: reduce in f32: declared calls work, undeclared ones throw UNSUPPORTED"],
    create: () =>
      altered((right) => ({
        supports: (operation, question) => question?.kind !== "prod" && right.supports(operation, question),
      })),
  },
];

/** Reductions of truth values that take each byte for another one. */
function misread(
  replaced: Builder["replaced"],
  change: (x: number, i: number, values: Float64Array) => number,
): ComputeBackend {
  return replaced("reduce", (p, run) => {
    if (!isTruthReduction(p.kind)) return run(p);
    const values = load(p.input, p.dtype);
    run({ ...p, input: mapped(p.input, p.dtype, (x, i) => change(x, i, values)) });
  });
}

const sumOf = (xs: readonly number[]): number => xs.reduce((total, x) => total + x, 0);

/** logSumExp by another function of all numbers of a result. */
function ofExponentials(
  replaced: Builder["replaced"],
  wrong: (xs: readonly number[]) => number,
): ComputeBackend {
  return replaced("reduce", (p, run) => {
    if (p.kind !== "logSumExp") return run(p);
    const values = load(p.input, p.dtype);
    const store = storeInto(p.output, p.dtype);
    const places = offsets(p.reduced);
    for (const [i, start] of offsets(p.kept).entries())
      store(i, wrong(places.map((place) => values[start + place]!)));
  });
}

/** Sums in the order of the data, rounded to f32 after each addition. */
function runningSums(p: ReduceProblem<ReferenceMemory>): void {
  const values = load(p.input, p.dtype);
  const store = storeInto(p.output, p.dtype);
  const places = offsets(p.reduced);
  for (const [i, start] of offsets(p.kept).entries()) {
    let sum = 0;
    for (const place of places) sum = Math.fround(sum + values[start + place]!);
    store(i, sum);
  }
}
