import type { ArgReduceProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

type Problem = ArgReduceProblem<ReferenceMemory>;

/** Searches each row by itself: `find` takes its elements and returns a place. */
function byRows(p: Problem, find: (row: readonly number[], kind: Problem["kind"]) => number): void {
  const { outer, length, inner } = p;
  const values = load(p.input, p.dtype);
  const store = storeInto(p.output, "i32");
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const row = Array.from({ length }, (_, j) => values[(o * length + j) * inner + i]!);
      store(o * inner + i, find(row, p.kind));
    }
}

/** The first place for which no other is better. */
function search(
  row: readonly number[],
  kind: Problem["kind"],
  better = (x: number, best: number) => (kind === "argMax" ? x > best : x < best),
): number {
  let place = 0;
  for (const [j, x] of row.entries()) {
    const best = row[place]!;
    if (!Number.isNaN(best) && (Number.isNaN(x) || better(x, best))) place = j;
  }
  return place;
}

/** Defects of argReduce. */
export const argReduceMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "searches along the last axis",
    operation: "argReduce",
    defect: "stride",
    description: "Whatever the axis is: neighbours are taken for a row.",
    killedBy: [
      "argReduce f32: argMax: finds it at each place",
      "argReduce u32: argMin: finds it at each place",
    ],
    create: () => tampered("argReduce", (p) => ({ ...p, outer: p.outer * p.inner, inner: 1 })),
  },
  {
    name: "takes the last of equal elements",
    operation: "argReduce",
    defect: "edge",
    description: "With >= for >.",
    killedBy: [
      "argReduce f32: takes the first place if all elements are equal",
      "argReduce i32: argMax: finds it on larger shapes",
    ],
    create: () =>
      replaced("argReduce", (p) =>
        byRows(p, (row, kind) => search(row, kind, (x, best) => (kind === "argMax" ? x >= best : x <= best))),
      ),
  },
  {
    name: "finds places in a part of the row",
    operation: "argReduce",
    defect: "indexing",
    description: "Long rows are searched in parts whose places are not counted from the start of the row.",
    killedBy: [
      "argReduce f32: argMax: finds it at each place",
      "argReduce f16: argMin: finds it at each place",
    ],
    create: () => replaced("argReduce", (p) => byRows(p, (row, kind) => search(row, kind) % 1024)),
  },
  {
    name: "prefers the part that ends first",
    operation: "argReduce",
    defect: "order",
    description: "Of equal elements in two halves of a row it takes that of the second.",
    killedBy: ["argReduce f32: takes the first place if all elements are equal"],
    create: () =>
      replaced("argReduce", (p) =>
        byRows(p, (row, kind) => {
          const middle = row.length >> 1;
          if (middle === 0) return 0;
          const [a, b] = [search(row.slice(0, middle), kind), middle + search(row.slice(middle), kind)];
          return Object.is(row[a]! - row[b]!, 0) ? b : search(row, kind);
        }),
      ),
  },
  {
    name: "begins with 0 as the largest",
    operation: "argReduce",
    defect: "edge",
    description: "Nothing is found among elements that are all below.",
    killedBy: [
      "argReduce f32: argMax: finds it at each place",
      "argReduce i32: argMax: finds it at each place",
    ],
    create: () =>
      replaced("argReduce", (p) =>
        byRows(p, (row, kind) => {
          const place = search(row, kind);
          return kind === "argMax" && row[place]! < 0 ? 0 : place;
        }),
      ),
  },
  {
    name: "compares as f32",
    operation: "argReduce",
    defect: "numerics",
    description: "Integers that differ become equal.",
    killedBy: [
      "argReduce i32: argMax: finds it at each place",
      "argReduce u32: argMin: finds it at each place",
    ],
    create: () => replaced("argReduce", (p) => byRows(p, (row, kind) => search(row.map(Math.fround), kind))),
  },
  {
    name: "compares u32 with signs",
    operation: "argReduce",
    defect: "numerics",
    description: "Numbers from 2^31 on are taken for negative ones.",
    killedBy: ["argReduce u32: argMax: finds the first extremum"],
    create: () =>
      replaced("argReduce", (p) =>
        byRows(p, (row, kind) => search(p.dtype === "u32" ? row.map((x) => x | 0) : row, kind)),
      ),
  },
  {
    name: "passes over NaN",
    operation: "argReduce",
    defect: "numerics",
    description: "As comparisons with > alone do.",
    killedBy: [
      "numerics f32: argReduce: finds the first NaN",
      "numerics f16: argReduce: finds the first NaN",
    ],
    create: () =>
      replaced("argReduce", (p, run) => {
        const lowest = p.kind === "argMax" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
        run({ ...p, input: mapped(p.input, p.dtype, (x) => (Number.isNaN(x) ? lowest : x)) });
      }),
  },
  {
    name: "takes the last NaN",
    operation: "argReduce",
    defect: "numerics",
    description: "Each NaN is taken for larger than all before.",
    killedBy: ["numerics f32: argReduce: finds the first NaN"],
    create: () =>
      replaced("argReduce", (p) =>
        byRows(p, (row, kind) => {
          const last = row.findLastIndex(Number.isNaN);
          return last < 0 ? search(row, kind) : last;
        }),
      ),
  },
  {
    name: "orders zeros by sign",
    operation: "argReduce",
    defect: "numerics",
    description: "As comparisons of bits do.",
    killedBy: ["argReduce f32: takes zeros of either sign as equal"],
    create: () =>
      replaced("argReduce", (p) => {
        const order = (x: number) => (Object.is(x, -0) ? -1e-300 : x);
        byRows(p, (row, kind) => search(row.map(order), kind));
      }),
  },
  {
    name: "keeps the places of an earlier call",
    operation: "argReduce",
    defect: "lifecycle",
    description: "By the shape: a later call finds them, whatever its elements are.",
    killedBy: ["slices: argReduce: all operands may be slices of one allocation"],
    create: () => {
      const kept = new Map<string, number[]>();
      return replaced("argReduce", (p) => {
        const call = [p.kind, p.outer, p.length, p.inner].join();
        const places = kept.get(call);
        const found: number[] = [];
        byRows(p, (row, kind) => {
          const place = places?.[found.length] ?? search(row, kind);
          found.push(place);
          return place;
        });
        kept.set(call, found);
      });
    },
  },
  {
    name: "forgets the last element of a row",
    operation: "argReduce",
    defect: "edge",
    description: "If its length is odd.",
    killedBy: ["argReduce f32: argMin: finds it at each place"],
    create: () =>
      replaced("argReduce", (p) =>
        byRows(p, (row, kind) =>
          search(row.length > 1 && row.length % 2 === 1 ? row.slice(0, -1) : row, kind),
        ),
      ),
  },
  {
    name: "writes places of 64 bits",
    operation: "argReduce",
    defect: "memory",
    description: "As other libraries have them.",
    killedBy: ["argReduce f32: touches nothing but the elements of its output"],
    create: () =>
      replaced("argReduce", (p, run) => {
        run(p);
        const { memory, byteOffset, byteLength } = p.output;
        memory.fill(0, byteOffset + byteLength, byteOffset + byteLength + 4);
      }),
  },
];
