import type { AttentionProblem, BackendError, FloatType, ReduceProblem } from "@backplane/core";
import { offsets } from "../reference/reduce.js";
import { load, type ReferenceMemory, storeInto } from "../reference.js";
import { mapped, picked, replaced, tampered, truncate } from "./build.js";
import { altered } from "./faulty-backends.js";
import type { Mutant } from "./mutant.js";

/** Defects of attention and reduce. */
export const summingMutants: readonly Mutant[] = [
  {
    name: "takes lower-right for upper-left",
    operation: "attention",
    defect: "indexing",
    description: "Right for square scores; wrong with a KV cache.",
    killedBy: [
      "attention f32: aligns the causal mask at the upper left, or at the lower right",
      "attention f32: gives zeros to queries that see no key",
    ],
    create: () => tampered("attention", (p) => ({ ...p, visible: p.visible < p.keyLength ? 0 : p.visible })),
  },
  {
    name: "skips keys 16 to 31",
    operation: "attention",
    defect: "edge",
    description: "Half of a subgroup's lanes, where subgroups are smaller than the code assumes.",
    killedBy: ["attention f32: stays within the error bound at the edges of tiles"],
    create: () =>
      replaced("attention", (p, run) => {
        if (p.keyLength < 32 || p.visible < p.keyLength) return run(p);
        const places: number[] = [];
        for (let head = 0; head < p.batch * p.kvHeads; head++)
          for (let j = 0; j < p.keyLength; j++)
            for (let d = 0; d < p.headSize && (j < 16 || j > 31); d++)
              places.push((head * p.keyLength + j) * p.headSize + d);
        const [k, v] = [picked(p.k, p.dtype, places), picked(p.v, p.dtype, places)];
        run({ ...p, k, v, keyLength: p.keyLength - 16, visible: p.keyLength - 16 });
      }),
  },
  {
    name: "gives blind queries the first value",
    operation: "attention",
    defect: "edge",
    description: "A row without any key is treated as if it saw one.",
    killedBy: ["attention f32: gives zeros to queries that see no key"],
    create: () =>
      replaced("attention", (p, run) => {
        run(p);
        const values = load(p.v, p.dtype);
        const store = storeInto(p.out, p.dtype);
        for (let row = 0; row < p.batch * p.heads * p.queryLength; row++)
          if ((row % p.queryLength) + p.visible < 0)
            for (let d = 0; d < p.headSize; d++) store(row * p.headSize + d, values[d]!, 0);
      }),
  },
  {
    name: "does not subtract the largest score",
    operation: "attention",
    defect: "numerics",
    description: "The textbook softmax; its exponentials overflow f32.",
    killedBy: ["attention f32: does not overflow on large scores"],
    create: () => replaced("attention", (p) => literalSoftmax(p)),
  },
  {
    name: "maps query heads to key heads in turn",
    operation: "attention",
    defect: "indexing",
    description: "h mod kvHeads in place of floor(h / (heads / kvHeads)).",
    killedBy: ["attention f32: stays within the error bound"],
    create: () =>
      replaced("attention", (p, run) => {
        const size = p.keyLength * p.headSize;
        const places: number[] = [];
        for (let b = 0; b < p.batch; b++)
          for (let head = 0; head < p.heads; head++)
            for (let i = 0; i < size; i++) places.push((b * p.kvHeads + (head % p.kvHeads)) * size + i);
        run({ ...p, kvHeads: p.heads, k: picked(p.k, p.dtype, places), v: picked(p.v, p.dtype, places) });
      }),
  },
  {
    name: "rounds f32 values to TF32",
    operation: "attention",
    defect: "numerics",
    description: "Tensor cores for the product of weights and values, without being asked for.",
    killedBy: ["attention f32: stays within the error bound"],
    create: () =>
      tampered("attention", (p) =>
        p.dtype === "f32" ? { ...p, v: mapped(p.v, p.dtype, (value) => truncate(value, 10)) } : p,
      ),
  },
  {
    name: "leaves out keys past the last whole tile",
    operation: "attention",
    defect: "edge",
    description: "Tiles of 64 keys; a rest is only looked at where it is all there is.",
    killedBy: [
      "attention f32: stays within the error bound",
      "attention f32: stays within the error bound at the edges of tiles",
    ],
    create: () =>
      tampered("attention", (p) => {
        const whole = p.keyLength - (p.keyLength % 64);
        return whole === 0 ? p : { ...keysOf(p, (head) => head, whole), visible: Math.min(p.visible, whole) };
      }),
  },
  {
    name: "gives every image the keys of the first",
    operation: "attention",
    defect: "stride",
    description: "The batch is left out of the place of the keys, not of that of the queries.",
    killedBy: [
      "attention f32: stays within the error bound",
      "attention f32: stays within the error bound on larger shapes",
    ],
    create: () => tampered("attention", (p) => keysOf(p, (head) => head % p.kvHeads)),
  },
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
        store(0, load(p.output, p.dtype)[0]! - lost, 0);
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
        for (const [i, value] of load(p.output, p.dtype).entries()) store(i, Math.max(value, 0), 0);
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
        for (const [i, value] of load(p.output, p.dtype).entries()) store(i, value / p.outputCount, 0);
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
];

/** Sums in the order of the data, rounded to f32 after each addition. */
function runningSums(p: ReduceProblem<ReferenceMemory, FloatType>): void {
  const values = load(p.input, p.dtype);
  const store = storeInto(p.output, p.dtype);
  const places = offsets(p.reduced);
  for (const [i, start] of offsets(p.kept).entries()) {
    let sum = 0;
    for (const place of places) sum = Math.fround(sum + values[start + place]!);
    store(i, sum, 0);
  }
}

/** Returns the problem with other keys: those of another head for each, or the first few of each. */
function keysOf(
  p: AttentionProblem<ReferenceMemory>,
  headFor: (head: number) => number,
  keyLength: number = p.keyLength,
): AttentionProblem<ReferenceMemory> {
  const places: number[] = [];
  for (let head = 0; head < p.batch * p.kvHeads; head++)
    for (let i = 0; i < keyLength * p.headSize; i++)
      places.push(headFor(head) * p.keyLength * p.headSize + i);
  return { ...p, keyLength, k: picked(p.k, p.dtype, places), v: picked(p.v, p.dtype, places) };
}

/** e^score over the sum of e^score, in f32. */
function literalSoftmax(p: AttentionProblem<ReferenceMemory>): void {
  const { queryLength, keyLength, headSize } = p;
  const [q, k, v] = [load(p.q, p.dtype), load(p.k, p.dtype), load(p.v, p.dtype)];
  const store = storeInto(p.out, p.dtype);
  const dot = (i: number, j: number) => {
    let sum = 0;
    for (let d = 0; d < headSize; d++) sum += q[i * headSize + d]! * k[j * headSize + d]!;
    return sum;
  };
  for (let row = 0; row < p.batch * p.heads * queryLength; row++) {
    const head = Math.floor(row / queryLength);
    const image = Math.floor(head / p.heads);
    const first = (image * p.kvHeads + Math.floor((head % p.heads) / (p.heads / p.kvHeads))) * keyLength;
    const count = Math.min(Math.max((row % queryLength) + p.visible + 1, 0), keyLength);
    const weights = Array.from({ length: count }, (_, j) =>
      Math.fround(Math.exp(p.scale * dot(row, first + j))),
    );
    const total = Math.fround(weights.reduce((a, b) => a + b, 0));
    for (let d = 0; d < headSize; d++) {
      let sum = 0;
      for (let j = 0; j < count; j++)
        sum += Math.fround(weights[j]! / total) * v[(first + j) * headSize + d]!;
      store(row * headSize + d, sum, 0);
    }
  }
}
