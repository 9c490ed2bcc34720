import { dtypeBytes, type ScatterProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, remembering, storeWholeVectors } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { combine, forEachUpdate } from "./formula.js";

type Problem = ScatterProblem<ReferenceMemory>;

const each = "scatter f32: combines each update with its element, in order, and leaves the others";
const outside = "scatter f32: writes nothing for indices out of range, wherever they are";
const larger = "scatter f32: combines them in larger shapes";

function reindexed(p: Problem, change: (index: number) => number): Problem {
  return { ...p, indices: mapped(p.indices, "i32", change) };
}

/** Makes the updates that `takes` lets through, on what was there at first or on what has become of it. */
function updated(p: Problem, isRead: boolean): void {
  const indices = load(p.indices, "i32");
  const updates = load(p.updates, p.dtype);
  const values = load(p.output, p.dtype);
  const store = storeInto(p.output, p.dtype);
  forEachUpdate(p, (from, at, to) => {
    const place = to(indices[at]!);
    if (place === undefined) return;
    const value = combine[p.kind](values[place]!, updates[from]!);
    if (isRead) values[place] = value;
    store(place, value);
  });
}

/** Defects of scatter. */
export const scatterMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "scatters to negative indices from the end",
    operation: "scatter",
    defect: "indexing",
    description: "As many languages do; here they are out of range.",
    killedBy: [each, outside],
    create: () => tampered("scatter", (p) => reindexed(p, (index) => (index < 0 ? index + p.length : index))),
  },
  {
    name: "scatters what is out of range to the ends",
    operation: "scatter",
    defect: "edge",
    description: "As robust access to buffers does.",
    killedBy: [each, outside],
    create: () =>
      tampered("scatter", (p) => reindexed(p, (index) => Math.min(Math.max(index, 0), p.length - 1))),
  },
  {
    name: "loses updates of one element that meet",
    operation: "scatter",
    defect: "numerics",
    description: "Each is combined with what was there at first, and the last one is stored.",
    killedBy: [each, larger],
    create: () => replaced("scatter", (p) => updated(p, false)),
  },
  {
    name: "updates the first of a batch by all indices",
    operation: "scatter",
    defect: "stride",
    description: "Indices that follow the axes before theirs are taken for repeated ones.",
    killedBy: [each],
    create: () => tampered("scatter", (p) => ({ ...p, outerStride: 0 })),
  },
  {
    name: "takes the index of a row's first element for each update",
    operation: "scatter",
    defect: "stride",
    description: "Indices that follow the axes after theirs are taken for those of whole rows.",
    killedBy: [each],
    create: () => tampered("scatter", (p) => ({ ...p, innerStride: 0 })),
  },
  {
    name: "clears elements that no index names",
    operation: "scatter",
    defect: "edge",
    description: "Writes a new output.",
    killedBy: [each, outside],
    create: () =>
      replaced("scatter", (p, run) => {
        const { memory, byteOffset, byteLength } = p.output;
        memory.fill(0, byteOffset, byteOffset + byteLength);
        run(p);
      }),
  },
  {
    name: "stores the end of an updated output as a vector",
    operation: "scatter",
    defect: "edge",
    description: "The last 16 bytes are stored whole.",
    killedBy: ["scatter f32: touches nothing but the elements that indices name"],
    create: () =>
      replaced("scatter", (p, run) => {
        run(p);
        storeWholeVectors(p.output, 16);
      }),
  },
  {
    name: "adds from the last update to the first",
    operation: "scatter",
    defect: "numerics",
    description: "Sums have other bits, and another update is the last one that sets.",
    killedBy: [each],
    create: () =>
      tampered("scatter", (p) => {
        if (p.outer > 1 || p.kind !== "set") return p;
        const size = dtypeBytes[p.dtype];
        const reversed = (region: Problem["updates"], row: number) => {
          const memory = new Uint8Array(region.byteLength);
          const from = region.memory.subarray(region.byteOffset, region.byteOffset + region.byteLength);
          for (let j = 0; j < p.count; j++)
            memory.set(from.subarray(j * row, (j + 1) * row), (p.count - 1 - j) * row);
          return { memory, byteOffset: 0, byteLength: region.byteLength };
        };
        const updates = reversed(p.updates, p.inner * size);
        return { ...p, updates, indices: reversed(p.indices, 4 * p.axisStride) };
      }),
  },
  {
    name: "scatters by the indices of an earlier call",
    operation: "scatter",
    defect: "lifecycle",
    description: "Checked and copied once for each place in memory.",
    killedBy: ["ordering: scatter: uses its operands as they are at the call"],
    create: () => {
      const first = remembering();
      return tampered("scatter", (p) => ({ ...p, indices: first(p.indices) }));
    },
  },
];
