import { dtypeBytes, type RopeProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, remembering, storeWholeVectors, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { type RopeInputs, rope } from "./formula.js";

type Problem = RopeProblem<ReferenceMemory>;

/** The formula, with other inputs. */
function computed(p: Problem, change: (inputs: RopeInputs) => Partial<RopeInputs>): void {
  const inputs: RopeInputs = {
    input: load(p.input, p.dtype),
    cos: load(p.cos, "f32"),
    sin: load(p.sin, "f32"),
    positions: p.positions && load(p.positions, "i32"),
  };
  rope(p, { ...inputs, ...change(inputs) }, storeInto(p.output, p.dtype));
}

const bound = "rope f32: stays within the error bound";
const larger = "rope f32: rotates every row of larger shapes";

/** Defects of rope. */
export const ropeMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "pairs neighbours as halves",
    operation: "rope",
    defect: "indexing",
    description: "One kind for both.",
    killedBy: [bound, larger],
    create: () => tampered("rope", (p) => ({ ...p, kind: "halves" })),
  },
  {
    name: "pairs halves of the whole row",
    operation: "rope",
    defect: "indexing",
    description: "All elements turn, although only the first ones should.",
    killedBy: [bound],
    create: () =>
      tampered("rope", (p) => (p.size % 2 === 0 && p.kind === "halves" ? { ...p, rotated: p.size } : p)),
  },
  {
    name: "turns back as forth",
    operation: "rope",
    defect: "numerics",
    description: "The sign of sines stays.",
    killedBy: [
      bound,
      "rope f32: copies with a cosine of 1 and a sine of 0, and turns a quarter with 0 and 1",
    ],
    create: () => tampered("rope", (p) => ({ ...p, inverse: false })),
  },
  {
    name: "clamps positions to the tables",
    operation: "rope",
    defect: "edge",
    description: "As robust access to buffers does.",
    killedBy: [bound],
    create: () =>
      tampered("rope", (p) =>
        p.positions === undefined
          ? p
          : {
              ...p,
              positions: mapped(p.positions, "i32", (x) => Math.min(Math.max(x, 0), p.length - 1)),
            },
      ),
  },
  {
    name: "begins each sequence at 0",
    operation: "rope",
    defect: "indexing",
    description: "As without a cache of keys.",
    killedBy: ["rope f32: takes start as positions that count up"],
    create: () => tampered("rope", (p) => ({ ...p, start: 0 })),
  },
  {
    name: "takes the positions of the first of a batch for all",
    operation: "rope",
    defect: "stride",
    description: "Sequences that start at different places are turned alike.",
    killedBy: [bound, larger],
    create: () => tampered("rope", (p) => ({ ...p, positionStride: 0 })),
  },
  {
    name: "writes rows where they were read",
    operation: "rope",
    defect: "stride",
    description: "The strides of the input serve for the output.",
    killedBy: [bound, larger],
    create: () =>
      tampered("rope", (p) => {
        const { batch, heads, rows, size, inputStrides: s } = p;
        const reach = (batch - 1) * s[0] + (heads - 1) * s[1] + (rows - 1) * s[2] + size;
        return reach * dtypeBytes[p.dtype] <= p.output.byteLength ? { ...p, outputStrides: s } : p;
      }),
  },
  {
    name: "rounds the tables to f16",
    operation: "rope",
    defect: "numerics",
    description: "As if they had the type of the data.",
    killedBy: [bound],
    create: () =>
      replaced("rope", (p) =>
        computed(p, ({ cos, sin }) => ({
          cos: cos.map((x) => truncate(x, 10)),
          sin: sin.map((x) => truncate(x, 10)),
        })),
      ),
  },
  {
    name: "fills the gap after each row",
    operation: "rope",
    defect: "edge",
    description: "Stores whole vectors, and does not stop where a row does.",
    killedBy: ["rope f32: touches nothing but its rows"],
    create: () =>
      replaced("rope", (p, run) => {
        run(p);
        storeWholeVectors(p.output, 16);
      }),
  },
  {
    name: "stores the first of a pair before it computes the second",
    operation: "rope",
    defect: "edge",
    description: "With the output over the input, the second is computed from the result of the first.",
    killedBy: [bound, larger],
    create: () =>
      replaced("rope", (p, run) => {
        if (p.input.memory !== p.output.memory || p.input.byteOffset !== p.output.byteOffset) {
          run(p);
          return;
        }
        const input = load(p.input, p.dtype);
        const store = storeInto(p.output, p.dtype);
        const inputs = { input, cos: load(p.cos, "f32"), sin: load(p.sin, "f32") };
        const positions = p.positions && load(p.positions, "i32");
        for (const first of [true, false]) {
          const written: (readonly [at: number, value: number])[] = [];
          let emitted = 0;
          rope(p, { ...inputs, positions }, (at, value) => {
            const i = emitted++ % p.size;
            if ((i < p.rotated && i % 2 === 0) === first) written.push([at, value]);
          });
          for (const [at, value] of written) {
            input[at] = value;
            store(at, value);
          }
        }
      }),
  },
  {
    name: "keeps the tables of an earlier call",
    operation: "rope",
    defect: "lifecycle",
    description: "Copied once for each place in memory.",
    killedBy: ["ordering: rope: uses its operands as they are at the call"],
    create: () => {
      const first = remembering();
      return tampered("rope", (p) => ({ ...p, cos: first(p.cos), sin: first(p.sin) }));
    },
  },
];
