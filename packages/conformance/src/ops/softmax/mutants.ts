import { dtypeBytes, type SoftmaxProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, storeWholeVectors, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

type Problem = SoftmaxProblem<ReferenceMemory>;

const f32 = Math.fround;

/** Computes each row by itself: `compute` takes its elements and returns its results. */
function byRows(
  p: Problem,
  compute: (row: readonly number[], kind: Problem["kind"]) => readonly number[],
): void {
  const { outer, length, inner } = p;
  const values = load(p.input, p.dtype);
  const store = storeInto(p.output, p.dtype);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const at = (j: number) => (o * length + j) * inner + i;
      const row = Array.from({ length }, (_, j) => values[at(j)]!);
      for (const [j, result] of compute(row, p.kind).entries()) store(at(j), result);
    }
}

const sumOf = (weights: readonly number[]): number => weights.reduce((a, b) => a + b, 0);

/** The formula, with a step or two of one's own. */
function row(
  values: readonly number[],
  kind: Problem["kind"],
  steps: {
    readonly largest?: number;
    readonly weight?: (difference: number) => number;
    readonly sum?: (weights: readonly number[]) => number;
  } = {},
): readonly number[] {
  const { largest = Math.max(...values), weight = Math.exp, sum = sumOf } = steps;
  const total = sum(values.map((x) => weight(x - largest)));
  return values.map((x) =>
    kind === "softmax" ? weight(x - largest) / total : x - largest - Math.log(total),
  );
}

/** Defects of softmax. */
export const softmaxMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "normalizes along the last axis",
    operation: "softmax",
    defect: "stride",
    description: "Whatever the axis is.",
    killedBy: ["softmax f32: softmax: stays within the error bound"],
    create: () =>
      tampered("softmax", (p) =>
        p.inner === 1 ? p : { ...p, outer: p.outer * p.length, length: p.inner, inner: 1 },
      ),
  },
  {
    name: "raises e to large numbers",
    operation: "softmax",
    defect: "numerics",
    description: "Without the largest element subtracted, e^89 is too large for f32.",
    killedBy: [
      "softmax f32: softmax: depends on differences alone, whatever the height of a row",
      "softmax f16: logSoftmax: depends on differences alone, whatever the height of a row",
    ],
    create: () =>
      replaced("softmax", (p) =>
        byRows(p, (x, kind) => row(x, kind, { largest: 0, weight: (d) => f32(Math.exp(d)) })),
      ),
  },
  {
    name: "starts the largest element at 0",
    operation: "softmax",
    defect: "edge",
    description: "All weights of a row far below 0 are then 0.",
    killedBy: ["softmax f32: softmax: depends on differences alone, whatever the height of a row"],
    create: () =>
      replaced("softmax", (p) =>
        byRows(p, (x, kind) => row(x, kind, { largest: Math.max(0, ...x), weight: (d) => f32(Math.exp(d)) })),
      ),
  },
  {
    name: "subtracts m + ln S at once",
    operation: "softmax",
    defect: "numerics",
    description: "x - (m + ln S) is as inaccurate as m is large.",
    killedBy: ["softmax f32: logSoftmax: depends on differences alone, whatever the height of a row"],
    create: () =>
      replaced("softmax", (p, run) => {
        if (p.kind === "softmax") return run(p);
        byRows(p, (x) => {
          const largest = Math.max(...x);
          const shift = f32(largest + Math.log(sumOf(x.map((value) => Math.exp(value - largest)))));
          return x.map((value) => value - shift);
        });
      }),
  },
  {
    name: "takes the logarithm of softmax",
    operation: "softmax",
    defect: "numerics",
    description: "Gives -Infinity where the weight is 0 in f32.",
    killedBy: [
      "softmax f32: logSoftmax: takes elements far below the others",
      "softmax f16: logSoftmax: takes elements far below the others",
    ],
    create: () =>
      replaced("softmax", (p, run) => {
        if (p.kind === "softmax") return run(p);
        byRows(p, (x) => row(x, "softmax").map((y) => Math.log(f32(y))));
      }),
  },
  {
    name: "adds weights up in one running f32",
    operation: "softmax",
    defect: "numerics",
    description: "A million times 0.1 comes out wrong in the fourth digit.",
    killedBy: [
      "softmax f32: softmax: stays accurate over many elements",
      "softmax f32: logSoftmax: stays accurate over many elements",
    ],
    create: () =>
      replaced("softmax", (p) => {
        const sum = (weights: readonly number[]) => weights.reduce((a, b) => f32(a + b), 0);
        // Without spreading a million arguments.
        const highest = (x: readonly number[]) =>
          x.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
        byRows(p, (x, kind) => row(x, kind, { largest: highest(x), sum }));
      }),
  },
  {
    name: "rounds weights to f16",
    operation: "softmax",
    defect: "numerics",
    description: "Before they are added up.",
    killedBy: ["softmax f32: softmax: stays within the error bound"],
    create: () =>
      replaced("softmax", (p) =>
        byRows(p, (x, kind) => row(x, kind, { weight: (d) => truncate(Math.exp(d), 10) })),
      ),
  },
  {
    name: "joins parts of a row without rescaling",
    operation: "softmax",
    defect: "numerics",
    description: "Each part of 1024 elements has a largest one of its own.",
    killedBy: [
      "softmax f32: softmax: stays within it on larger shapes",
      "softmax f32: logSoftmax: stays within it on larger shapes",
    ],
    create: () =>
      replaced("softmax", (p, run) => {
        if (p.length <= 1024) return run(p);
        byRows(p, (x, kind) => {
          const largest = x.reduce((a, b) => Math.max(a, b));
          let total = 0;
          for (let first = 0; first < x.length; first += 1024) {
            const part = x.slice(first, first + 1024);
            const own = Math.max(...part);
            total += sumOf(part.map((value) => Math.exp(value - own)));
          }
          return row(x, kind, { largest, sum: () => total });
        });
      }),
  },
  {
    name: "fills up rows with zeros",
    operation: "softmax",
    defect: "edge",
    description: "To a multiple of 4: a zero counts as an element like any other.",
    killedBy: ["softmax f32: softmax: stays within the error bound"],
    create: () =>
      replaced("softmax", (p) =>
        byRows(p, (x, kind) => {
          const padded = [...x, ...new Array<number>((4 - (x.length % 4)) % 4).fill(0)];
          return row(padded, kind).slice(0, x.length);
        }),
      ),
  },
  {
    name: "forgets the end of a row in its sum",
    operation: "softmax",
    defect: "edge",
    description: "What does not fill a vector of four is not added.",
    killedBy: ["softmax f32: softmax: stays within the error bound"],
    create: () =>
      replaced("softmax", (p) =>
        byRows(p, (x, kind) => {
          const sum = (weights: readonly number[]) =>
            sumOf(weights.length < 4 ? weights : weights.slice(0, weights.length & ~3));
          return row(x, kind, { sum });
        }),
      ),
  },
  {
    name: "has one largest element for all rows",
    operation: "softmax",
    defect: "indexing",
    description: "Rows far below it have weights of 0.",
    killedBy: ["softmax f32: softmax: depends on differences alone, whatever the height of a row"],
    create: () =>
      replaced("softmax", (p) => {
        const largest = load(p.input, p.dtype).reduce((a, b) => Math.max(a, b));
        byRows(p, (x, kind) => row(x, kind, { largest, weight: (d) => f32(Math.exp(d)) }));
      }),
  },
  {
    name: "reads what it has just written",
    operation: "softmax",
    defect: "order",
    description:
      "Over its input, results of the first half of a row are taken for elements of the second pass.",
    killedBy: ["in-place: softmax may write exactly over its input"],
    create: () =>
      replaced("softmax", (p, run) => {
        const { input, output } = p;
        run(p);
        if (input.memory === output.memory && input.byteOffset === output.byteOffset) run(p);
      }),
  },
  {
    name: "mixes up the rows that share a word",
    operation: "softmax",
    defect: "indexing",
    description: "Two f16 share a word: with odd rows, one of them is lost at each border.",
    killedBy: ["softmax f16: softmax: stays within the error bound"],
    create: () =>
      replaced("softmax", (p, run) => {
        run(p);
        if (p.dtype !== "f16" || p.length % 2 === 0 || p.inner > 1) return;
        const values = load(p.output, p.dtype);
        const store = storeInto(p.output, p.dtype);
        for (let row = 1; row < p.outer; row += 2) store(row * p.length, values[row * p.length - 1]!);
      }),
  },
  {
    name: "writes a vector past the last row",
    operation: "softmax",
    defect: "edge",
    description: "The last vector of four is stored whole.",
    killedBy: ["softmax f32: touches nothing but the elements of its output"],
    create: () =>
      replaced("softmax", (p, run) => {
        run(p);
        storeWholeVectors(p.output, 4 * dtypeBytes[p.dtype]);
      }),
  },
  {
    name: "keeps the sums of an earlier call",
    operation: "softmax",
    defect: "lifecycle",
    description: "In memory of its own, by the shape: a later call of the same shape finds them there.",
    killedBy: ["ordering: softmax: uses its operands as they are at the call"],
    create: () => {
      const kept = new Map<string, number[]>();
      return replaced("softmax", (p) => {
        const shape = [p.outer, p.length, p.inner].join();
        const before = kept.get(shape);
        const sums: number[] = [];
        byRows(p, (x, kind) => {
          const sum = (weights: readonly number[]) => {
            sums.push(sumOf(weights));
            return before?.[sums.length - 1] ?? sums.at(-1)!;
          };
          return row(x, kind, { largest: x.reduce((a, b) => Math.max(a, b)), sum });
        });
        kept.set(shape, sums);
      });
    },
  },
  {
    name: "loses a NaN in the maximum",
    operation: "softmax",
    defect: "numerics",
    description: "The NaN counts as the lowest element.",
    killedBy: ["numerics f32: softmax: makes a row with a NaN NaN, and no other"],
    create: () =>
      tampered("softmax", (p) => ({
        ...p,
        input: mapped(p.input, p.dtype, (x) => (Number.isNaN(x) ? Number.NEGATIVE_INFINITY : x)),
      })),
  },
  {
    name: "gives 0 for nothing but -Infinity",
    operation: "softmax",
    defect: "numerics",
    description: "As attention does for a query that sees no key.",
    killedBy: ["numerics f32: softmax: has no result for +Infinity, or for nothing but -Infinity"],
    create: () =>
      replaced("softmax", (p) =>
        byRows(p, (x, kind) =>
          x.every((value) => value === Number.NEGATIVE_INFINITY) ? x.map(() => 0) : row(x, kind),
        ),
      ),
  },
];
