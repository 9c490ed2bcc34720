import type { MapProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, remembering } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

type Problem = MapProblem<ReferenceMemory>;

const onCondition = (p: Problem, change: (value: number) => number): Problem => ({
  ...p,
  inputs: p.inputs.map((input, i) =>
    i === 0 ? { ...input, region: mapped(input.region, "u8", change) } : input,
  ),
});

/** Defects of select. */
export const selectMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "selects where the condition is 0",
    operation: "select",
    defect: "indexing",
    description: "The branches are in the order of WGSL's select.",
    killedBy: ["select f32: is exact on whole numbers", "select u8: is exact on whole numbers"],
    create: () => tampered("select", (p) => onCondition(p, (value) => (value === 0 ? 1 : 0))),
  },
  {
    name: "looks at the lowest bit of the condition",
    operation: "select",
    defect: "edge",
    description: "Truth values are taken to be 0 or 1.",
    killedBy: ["select f32: is exact on whole numbers", "select i32: counts every element on larger shapes"],
    create: () => tampered("select", (p) => onCondition(p, (value) => value & 1)),
  },
  {
    name: "takes the condition of the first of a row for all of it",
    operation: "select",
    defect: "stride",
    description: "The condition is taken to repeat along the innermost axis, if there are several.",
    killedBy: ["select f32: counts every element on larger shapes"],
    create: () =>
      tampered("select", (p) => ({
        ...p,
        inputs: p.inputs.map((input, i) =>
          i === 0 && p.shape.length > 1 ? { ...input, strides: input.strides.with(-1, 0) } : input,
        ),
      })),
  },
  {
    name: "selects by arithmetic in f32",
    operation: "select",
    defect: "numerics",
    description: "Integers of more than 24 bits lose some.",
    killedBy: ["select i32: is exact on whole numbers", "select u32: is exact on whole numbers"],
    create: () =>
      replaced("select", (p, run) => {
        run(p);
        const [{ dtype, region }] = p.outputs as [Problem["outputs"][number]];
        const store = storeInto(region, dtype);
        for (const [i, value] of load(region, dtype).entries()) store(i, Math.fround(value));
      }),
  },
  {
    name: "remembers the condition of a place",
    operation: "select",
    defect: "lifecycle",
    description: "Masks are unpacked once, and found again by their place.",
    killedBy: ["select f32: takes a condition as it is at each call"],
    create: () => {
      const first = remembering();
      return tampered("select", (p) => ({
        ...p,
        inputs: p.inputs.map((input, i) => (i === 0 ? { ...input, region: first(input.region) } : input)),
      }));
    },
  },
];
