import type { AttentionProblem, MaskAxes, MaskType } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, picked, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

/** Defects of attention. */
export const attentionMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
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
            for (let d = 0; d < p.headSize; d++) store(row * p.headSize + d, values[d]!);
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
    name: "looks for the keys of a head right behind those of the one before",
    operation: "attention",
    defect: "stride",
    description: "A cache has room for more keys there.",
    killedBy: ["attention f32: takes a cache with room for more keys"],
    create: () => tampered("attention", (p) => ({ ...p, keyPitch: p.keyLength })),
  },
  {
    name: "writes rows one after the other, wherever they belong",
    operation: "attention",
    defect: "stride",
    description: "Only what is read has strides.",
    killedBy: [
      "attention f32: takes rows with room behind them, and rows of several operands side by side",
      "attention f32: takes a cache with room for more keys",
    ],
    create: () =>
      tampered("attention", (p) => {
        const { out: _, ...rows } = p.rows ?? {};
        return { ...p, rows };
      }),
  },
  {
    name: "scales the mask of attention too",
    operation: "attention",
    defect: "numerics",
    description: "scale * (q k + mask): right for masks that only hide, and for a scale of 1.",
    killedBy: ["attention f32: adds a mask to the scores, or hides keys by it"],
    create: () => tampered("attention", (p) => masked(p, ["f32", "f16"], (x) => x * p.scale)),
  },
  {
    name: "hides keys behind a truth value of 2",
    operation: "attention",
    defect: "edge",
    description: "A byte is compared with 1, or only its lowest bit is.",
    killedBy: [
      "attention f32: adds a mask to the scores, or hides keys by it",
      "attention f32: gives the same with a mask of zeros, or one that hides nothing, as without",
    ],
    create: () => tampered("attention", (p) => masked(p, ["u8"], (x) => (x % 2 === 1 ? 1 : 0))),
  },
  {
    name: "takes -Infinity in a mask for a large negative number",
    operation: "attention",
    defect: "edge",
    description: "A row that sees nothing gets the mean of all values in place of zeros.",
    killedBy: ["attention f32: gives zeros to queries that a mask leaves no key"],
    create: () => tampered("attention", (p) => masked(p, ["f32", "f16"], (x) => Math.max(x, -30_000))),
  },
  {
    name: "leaves hidden keys a weight of e^-20",
    operation: "attention",
    defect: "numerics",
    description: "A constant that hides nearly all of a usual value is added, not -Infinity.",
    killedBy: ["attention f32: gives keys no weight at all that are hidden by -Infinity, or by 0"],
    create: () => tampered("attention", (p) => masked(p, ["f32", "f16"], (x) => Math.max(x, -20))),
  },
  {
    name: "gives all heads the mask of the first",
    operation: "attention",
    defect: "stride",
    description: "Most masks are the same for all heads.",
    killedBy: [
      "attention f32: adds a mask to the scores, or hides keys by it",
      "attention f32: repeats a mask along any axes, and finds it by its strides",
    ],
    create: () => tampered("attention", (p) => strided(p, ([batch, , query, key]) => [batch, 0, query, key])),
  },
  {
    name: "takes the keys of a mask one after the other",
    operation: "attention",
    defect: "stride",
    description: "The stride along the keys is taken for 1, or for 0.",
    killedBy: ["attention f32: repeats a mask along any axes, and finds it by its strides"],
    create: () =>
      tampered("attention", (p) =>
        strided(p, ([batch, head, query, key]) => [batch, head, query, Math.min(key, 1)]),
      ),
  },
  {
    name: "sees one key more than the window has",
    operation: "attention",
    defect: "edge",
    description: "i - window <= j, where i - window < j is meant.",
    killedBy: [
      "attention f32: sees the keys of a window and no others",
      "attention f32: weighs each key of a window once where all scores are the same",
    ],
    create: () => tampered("attention", (p) => (p.oldest === undefined ? p : { ...p, oldest: p.oldest - 1 })),
  },
  {
    name: "forgets the window behind a mask",
    operation: "attention",
    defect: "indexing",
    description: "The mask is taken to have all that is hidden.",
    killedBy: ["attention f32: takes windows, masks and rows with strides together"],
    create: () => tampered("attention", (p) => (p.mask === undefined ? p : { ...p, oldest: undefined })),
  },
];

/** The problem with other numbers in its mask, if that is of one of these types. */
function masked(
  p: AttentionProblem<ReferenceMemory>,
  types: readonly MaskType[],
  change: (value: number) => number,
): AttentionProblem<ReferenceMemory> {
  const { mask } = p;
  if (mask === undefined || !types.includes(mask.dtype)) return p;
  return { ...p, mask: { ...mask, region: mapped(mask.region, mask.dtype, change) } };
}

function strided(
  p: AttentionProblem<ReferenceMemory>,
  change: (strides: MaskAxes) => MaskAxes,
): AttentionProblem<ReferenceMemory> {
  return p.mask === undefined ? p : { ...p, mask: { ...p.mask, strides: change(p.mask.strides) } };
}

/** Returns the problem with other keys: those of another head for each, or the first few of each. */
function keysOf(
  p: AttentionProblem<ReferenceMemory>,
  headFor: (head: number) => number,
  keyLength: number = p.keyLength,
): AttentionProblem<ReferenceMemory> {
  const places: number[] = [];
  for (let head = 0; head < p.batch * p.kvHeads; head++)
    for (let i = 0; i < keyLength * p.headSize; i++) places.push(headFor(head) * p.keyPitch * p.headSize + i);
  return {
    ...p,
    keyLength,
    keyPitch: keyLength,
    k: picked(p.k, p.dtype, places),
    v: picked(p.v, p.dtype, places),
  };
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
      store(row * headSize + d, sum);
    }
  }
}
