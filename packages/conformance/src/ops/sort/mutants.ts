import type { SortProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import type { Builder, Mutant } from "../../mutant.js";
import { compare } from "./formula.js";

type Problem = SortProblem<ReferenceMemory>;

/** Orders each line by itself: takes its elements, and returns their places in order. */
function byLines(p: Problem, order: (line: readonly number[]) => readonly number[]): void {
  const { dtype, outer, length, inner, count, values, indices } = p;
  const elements = load(p.input, dtype);
  const [storeValue, storeIndex] = [values && storeInto(values, dtype), indices && storeInto(indices, "i32")];
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const line = Array.from({ length }, (_, j) => elements[(o * length + j) * inner + i]!);
      for (const [j, place] of order(line).slice(0, count).entries()) {
        storeValue?.((o * count + j) * inner + i, line[place]!);
        storeIndex?.((o * count + j) * inner + i, place);
      }
    }
}

type Compare = (x: number, y: number, a: number, b: number) => number;

function ordered(line: readonly number[], by: Compare): number[] {
  return line.map((_, j) => j).sort((a, b) => by(line[a]!, line[b]!, a, b));
}

const onLarger = "sort f32: puts them in order on larger shapes";
const inOrder = "sort f32: puts elements in order, and keeps that of equal ones";

/** Defects of sort. */
export const sortMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "sorts along the last axis",
    operation: "sort",
    defect: "stride",
    description: "Whatever the axis is: neighbours are taken for a line.",
    killedBy: [onLarger],
    create: () => tampered("sort", (p) => ({ ...p, outer: p.outer * p.inner, inner: 1 })),
  },
  {
    name: "turns equal elements round",
    operation: "sort",
    defect: "order",
    description: "A descending sort is an ascending one backwards.",
    killedBy: [inOrder],
    create: () =>
      replaced("sort", (p) =>
        byLines(p, (line) =>
          ordered(line, (x, y, a, b) => compare(x, y, p.descending) || (p.descending ? b - a : a - b)),
        ),
      ),
  },
  {
    name: "counts places from the start of a part",
    operation: "sort",
    defect: "indexing",
    description: "Places in lines of more than 1024 elements are those in their part.",
    killedBy: [onLarger],
    create: () =>
      replaced("sort", (p) =>
        byLines(p, (line) => ordered(line, (x, y) => compare(x, y, p.descending)).map((j) => j % 1024)),
      ),
  },
  {
    name: "orders zeros by their sign",
    operation: "sort",
    defect: "numerics",
    description: "As a sort of bits does.",
    killedBy: [onLarger],
    create: () =>
      replaced("sort", (p) => {
        const plain = (x: number) => (Object.is(x, -0) ? -1e-300 : x);
        byLines(p, (line) => ordered(line, (x, y) => compare(plain(x), plain(y), p.descending)));
      }),
  },
  {
    name: "rounds integers to f32 to compare them",
    operation: "sort",
    defect: "numerics",
    description: "Integers that differ become equal.",
    killedBy: ["sort i32: puts elements in order, and keeps that of equal ones"],
    create: () =>
      replaced("sort", (p) =>
        byLines(p, (line) => ordered(line, (x, y) => compare(Math.fround(x), Math.fround(y), p.descending))),
      ),
  },
  {
    name: "puts NaN first if descending",
    operation: "sort",
    defect: "edge",
    description: "As the largest number.",
    killedBy: ["numerics f32: sort: puts NaN last, and infinities before it"],
    create: () =>
      replaced("sort", (p) =>
        byLines(p, (line) =>
          ordered(line, (x, y) => (p.descending ? -compare(x, y, false) : compare(x, y, false))),
        ),
      ),
  },
  {
    name: "keeps the order of an earlier call",
    operation: "sort",
    defect: "lifecycle",
    description: "By the shape: a later call finds it, whatever its elements are.",
    killedBy: ["sort f32: sorts what is sorted into itself"],
    create: () => {
      const kept = new Map<string, readonly (readonly number[])[]>();
      return replaced("sort", (p) => {
        const call = [p.outer, p.length, p.inner, p.descending].join();
        const earlier = kept.get(call);
        const found: (readonly number[])[] = [];
        byLines(p, (line) => {
          const places = earlier?.[found.length] ?? ordered(line, (x, y) => compare(x, y, p.descending));
          found.push(places);
          return places;
        });
        kept.set(call, found);
      });
    },
  },
];
