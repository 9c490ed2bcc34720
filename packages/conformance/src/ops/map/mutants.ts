import type { MapProblem, MapStep } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

type Problem = MapProblem<ReferenceMemory>;

const withSteps = (p: Problem, change: (step: MapStep) => MapStep): Problem => ({
  ...p,
  steps: p.steps.map(change),
});

/** Defects of map. */
export const mapMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "counts along the last axis instead of the one named",
    operation: "map",
    defect: "indexing",
    description: "The place in a row is at hand, that of the row is not.",
    killedBy: [
      "map f32: counts along axes, whatever is merged",
      "map f16: counts along axes, whatever is merged",
    ],
    create: () =>
      tampered("map", (p) =>
        withSteps(p, (step) => (step.step === "index" ? { ...step, axis: p.shape.length - 1 } : step)),
      ),
  },
  {
    name: "selects the other one",
    operation: "map",
    defect: "indexing",
    description: "The branches are in the order of WGSL's select.",
    killedBy: ["map f32: counts along axes, whatever is merged", "map f16: is exact on whole numbers"],
    create: () =>
      tampered("map", (p) =>
        withSteps(p, (step) => (step.step === "select" ? { ...step, a: step.b, b: step.a } : step)),
      ),
  },
  {
    name: "leaves out elements after the last whole vector",
    operation: "map",
    defect: "edge",
    description: "Of several outputs only the first has a loop for the rest.",
    killedBy: ["map f32: is exact on whole numbers", "map f32: makes a step of Adam in place"],
    create: () =>
      replaced("map", (p, run) => {
        const before = p.outputs.map(({ dtype, region }) => load(region, dtype));
        run(p);
        for (const [j, { dtype, region }] of p.outputs.entries()) {
          if (j === 0) continue;
          const store = storeInto(region, dtype);
          for (let i = p.n - (p.n % 4); i < p.n; i++) store(i, before[j]![i]!);
        }
      }),
  },
  {
    name: "reads the first row for all",
    operation: "map",
    defect: "stride",
    description: "An input that repeats along an inner axis is taken to repeat along the outer one too.",
    killedBy: ["map f32: counts every element on larger shapes"],
    create: () =>
      tampered("map", (p) => ({
        ...p,
        inputs: p.inputs.map((input) =>
          input.strides.at(-1) === 0 ? { ...input, strides: input.strides.map(() => 0) } : input,
        ),
      })),
  },
  {
    name: "keeps parameters in 11 bits",
    operation: "map",
    defect: "numerics",
    description: "Parameters travel as f16.",
    killedBy: ["map f32: makes a step of Adam in place"],
    create: () =>
      tampered("map", (p) => ({
        ...p,
        parameters: p.parameters.map((one) => ({ ...one, value: truncate(one.value, 10) })),
      })),
  },
  {
    name: "multiplies integers as fractions",
    operation: "map",
    defect: "numerics",
    description: "The low bits of a large product are lost.",
    killedBy: ["map f32: integers are exact, whatever their size"],
    create: () =>
      tampered("map", (p) =>
        withSteps(p, (step) =>
          step.step === "binary" && step.kind === "mul" ? { ...step, of: "f32" } : step,
        ),
      ),
  },
  {
    name: "rounds to integers instead of truncating",
    operation: "map",
    defect: "numerics",
    description: "As the conversion of the processor does by default.",
    killedBy: ["map f32: random expressions stay within the error bound"],
    create: () =>
      tampered("map", (p) => {
        const steps: MapStep[] = [];
        const moved: number[] = [];
        for (const step of p.steps) {
          const one = movedTo(step, moved);
          if (one.step === "convert" && one.from === "f32" && one.type !== "f32") {
            steps.push({ step: "unary", type: "f32", of: "f32", kind: "round", x: one.x });
            steps.push({ ...one, x: steps.length - 1 });
          } else steps.push(one);
          moved.push(steps.length - 1);
        }
        return { ...p, steps, outputs: p.outputs.map((one) => ({ ...one, result: moved[one.result]! })) };
      }),
  },
  {
    name: "keeps the parameters of the first call of a structure",
    operation: "map",
    defect: "lifecycle",
    description: "They are compiled into the kernel, which is found again by its structure.",
    killedBy: ["map f32: takes new sizes, places and parameters with a structure that it knows"],
    create: () => {
      const known = new Map<string, Problem["parameters"]>();
      return tampered("map", (p) => {
        const parameters = known.get(p.key) ?? p.parameters;
        known.set(p.key, parameters);
        return { ...p, parameters };
      });
    },
  },
  {
    name: "keeps the strides of the first call of a structure",
    operation: "map",
    defect: "lifecycle",
    description:
      "Whether an input repeats is compiled into the kernel, which is found again by its structure.",
    killedBy: ["map f32: takes new sizes, places and parameters with a structure that it knows"],
    create: () => {
      const known = new Map<string, readonly (readonly number[])[]>();
      return tampered("map", (p) => {
        const key = `${p.key} ${p.shape.length}`;
        const strides =
          known.get(key) ?? p.inputs.map((input) => input.strides.map((stride) => Math.min(stride, 1)));
        known.set(key, strides);
        return {
          ...p,
          inputs: p.inputs.map((input, i) => ({
            ...input,
            strides: input.strides.map((stride, axis) => (strides[i]![axis] === 0 ? 0 : stride)),
          })),
        };
      });
    },
  },
  {
    name: "writes one output after the other",
    operation: "map",
    defect: "order",
    description: "A later one reads inputs over which an earlier one lies.",
    killedBy: [
      "map f32: reads every input before an output that lies over it is written",
      "map f16: reads every input before an output that lies over it is written",
    ],
    create: () =>
      replaced("map", (p, run) => {
        for (const output of p.outputs) run({ ...p, outputs: [output] });
      }),
  },
];

/** The step with its operands at new places. */
function movedTo(step: MapStep, moved: readonly number[]): MapStep {
  const to = (place: number) => moved[place]!;
  switch (step.step) {
    case "unary":
    case "convert":
      return { ...step, x: to(step.x) };
    case "binary":
      return { ...step, a: to(step.a), b: to(step.b) };
    case "select":
      return { ...step, condition: to(step.condition), a: to(step.a), b: to(step.b) };
    default:
      return step;
  }
}
