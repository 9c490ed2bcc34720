import { dtypeBytes, type GatherProblem } from "@backplane/core";
import { load, type Place, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, remembering, storeWholeVectors } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { forEachPlace } from "./formula.js";

type Problem = GatherProblem<ReferenceMemory>;

/** The problem with each index replaced by another one. */
function reindexed(p: Problem, change: (index: number) => number): Problem {
  return { ...p, indices: mapped(p.indices, "i32", change) };
}

/** The region with what lies behind it in its allocation, up to a number of bytes. */
function reaching(region: Place, bytes: number): Place {
  return { ...region, byteLength: Math.min(region.memory.length - region.byteOffset, bytes) };
}

/** Defects of gather. */
export const gatherMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "counts negative indices from the end",
    operation: "gather",
    defect: "indexing",
    description: "As many languages do; here they are out of range.",
    killedBy: [
      "gather f32: brings the element of each index, and 0 for those out of range",
      "gather u8: gives nothing but zeros for indices out of range, wherever they are",
    ],
    create: () => tampered("gather", (p) => reindexed(p, (index) => (index < 0 ? index + p.length : index))),
  },
  {
    name: "clamps indices to the axis",
    operation: "gather",
    defect: "edge",
    description: "As robust access to buffers does.",
    killedBy: [
      "gather f32: brings the element of each index, and 0 for those out of range",
      "gather f16: gives nothing but zeros for indices out of range, wherever they are",
    ],
    create: () =>
      tampered("gather", (p) => reindexed(p, (index) => Math.min(Math.max(index, 0), p.length - 1))),
  },
  {
    name: "reads one row past the axis",
    operation: "gather",
    defect: "edge",
    description:
      "An index equal to the extent: the first row of the next one along the axes before, or what is behind.",
    killedBy: [
      "gather f32: brings the element of each index, and 0 for those out of range",
      "gather i32: gives nothing but zeros for indices out of range, wherever they are",
    ],
    create: () =>
      replaced("gather", (p) => {
        const { length, inner } = p;
        const size = dtypeBytes[p.dtype];
        const indices = load(p.indices, "i32");
        const behind = reaching(p.input, p.input.byteLength + inner * size);
        const values = load(
          { ...behind, byteLength: behind.byteLength - (behind.byteLength % size) },
          p.dtype,
        );
        const store = storeInto(p.output, p.dtype);
        forEachPlace(p, (to, at, from) => {
          const last = from(length - 1)!;
          const place = indices[at] === length ? last + inner : from(indices[at]!);
          store(to, place === undefined ? 0 : (values[place] ?? 0));
        });
      }),
  },
  {
    name: "leaves what was there for an index out of range",
    operation: "gather",
    defect: "edge",
    description: "As scatter does.",
    killedBy: [
      "gather f32: brings the element of each index, and 0 for those out of range",
      "gather u32: gives nothing but zeros for indices out of range, wherever they are",
    ],
    create: () =>
      replaced("gather", (p) => {
        const indices = load(p.indices, "i32");
        const values = load(p.input, p.dtype);
        const store = storeInto(p.output, p.dtype);
        forEachPlace(p, (to, at, from) => {
          const place = from(indices[at]!);
          if (place !== undefined) store(to, values[place]!);
        });
      }),
  },
  {
    name: "takes the indices of the first of a batch for all",
    operation: "gather",
    defect: "stride",
    description: "Indices that follow the axes before theirs are taken for repeated ones.",
    killedBy: ["gather f32: brings the element of each index, and 0 for those out of range"],
    create: () => tampered("gather", (p) => ({ ...p, outerStride: 0 })),
  },
  {
    name: "takes the index of a row's first element for all of it",
    operation: "gather",
    defect: "stride",
    description: "Indices that follow the axes after theirs are taken for those of whole rows.",
    killedBy: ["gather f32: brings the element of each index, and 0 for those out of range"],
    create: () => tampered("gather", (p) => ({ ...p, innerStride: 0 })),
  },
  {
    name: "gathers from the first of a batch",
    operation: "gather",
    defect: "stride",
    description: "The axes before the given one move the output alone.",
    killedBy: [
      "gather f32: brings the element of each index, and 0 for those out of range",
      "gather f32: leaves its input as it is by identity, and by a permutation and its inverse",
    ],
    create: () =>
      replaced("gather", (p) => {
        const indices = load(p.indices, "i32");
        const values = load(p.input, p.dtype);
        const store = storeInto(p.output, p.dtype);
        forEachPlace(p, (to, at, from) => {
          const place = from(indices[at]!);
          store(to, place === undefined ? 0 : values[place % (p.length * p.inner)]!);
        });
      }),
  },
  {
    name: "keeps 16 bits of an index",
    operation: "gather",
    defect: "indexing",
    description: "Tables of more than 65,536 rows begin again.",
    killedBy: ["gather f32: brings them in larger shapes"],
    create: () => tampered("gather", (p) => reindexed(p, (index) => (index < 0 ? index : index & 0xffff))),
  },
  {
    name: "copies numbers instead of bits",
    operation: "gather",
    defect: "numerics",
    description: "A NaN becomes the usual one, and the smallest numbers 0.",
    killedBy: [
      "gather f32: keeps the bits of every element, of any NaN too",
      "gather f16: keeps the bits of every element, of any NaN too",
    ],
    create: () =>
      tampered("gather", (p) =>
        p.dtype === "f32" || p.dtype === "f16"
          ? {
              ...p,
              input: mapped(p.input, p.dtype, (x) => (Number.isNaN(x) || Math.abs(x) < 2 ** -14 ? x + 0 : x)),
            }
          : p,
      ),
  },
  {
    name: "loses one of two rows in a word",
    operation: "gather",
    defect: "indexing",
    description: "Two f16 or four bytes share a word: where rows end inside one, one of two writers is lost.",
    killedBy: [
      "gather f16: brings the element of each index, and 0 for those out of range",
      "gather u8: leaves its input as it is by identity, and by a permutation and its inverse",
    ],
    create: () =>
      replaced("gather", (p, run) => {
        const size = dtypeBytes[p.dtype];
        const before = p.output.memory.slice();
        run(p);
        const { memory, byteOffset } = p.output;
        for (let row = 1; row < p.outer * p.count; row++) {
          const at = byteOffset + row * p.inner * size;
          for (let byte = at - (at % 4); byte < at; byte++) memory[byte] = before[byte]!;
        }
      }),
  },
  {
    name: "stores the end of a result as a vector",
    operation: "gather",
    defect: "edge",
    description: "The last 16 bytes are stored whole.",
    killedBy: ["gather f32: touches nothing but the elements of its output"],
    create: () =>
      replaced("gather", (p, run) => {
        run(p);
        storeWholeVectors(p.output, 16);
      }),
  },
  {
    name: "keeps the indices of an earlier call",
    operation: "gather",
    defect: "lifecycle",
    description: "Checked and copied once for each place in memory.",
    killedBy: ["ordering: gather: uses its operands as they are at the call"],
    create: () => {
      const first = remembering();
      return tampered("gather", (p) => ({ ...p, indices: first(p.indices) }));
    },
  },
];
