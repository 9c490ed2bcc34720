import type { MapProblem, MapStep, Numerics } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import type { Evaluate } from "../operation.js";
import { offsets } from "../places.js";
import { type Estimate, estimate, stored } from "./analysis.js";

/** A problem with its inputs as numbers. */
export type MapNumbers = Pick<MapProblem<unknown>, "shape" | "n" | "parameters" | "steps"> & {
  readonly inputs: readonly { readonly values: Float64Array; readonly strides: readonly number[] }[];
};

/** Calls `visit` with the estimates of all steps, for each place of the shape. */
export function forEachElement(
  problem: MapNumbers,
  numerics: Numerics | undefined,
  visit: (i: number, of: (step: number) => Estimate) => void,
): void {
  const { shape, n, inputs, parameters, steps } = problem;
  const placesOf = (strides: readonly number[]) =>
    offsets(shape.map((extent, axis) => ({ extent, stride: strides[axis]! })));
  const elements = inputs.map(({ values, strides }) => ({ values, places: placesOf(strides) }));
  const alongOf = new Map<number, ArrayLike<number>>();
  for (const step of steps)
    if (step.step === "index")
      alongOf.set(step.axis, placesOf(shape.map((_, axis) => (axis === step.axis ? 1 : 0))));
  const estimates = new Array<Estimate>(steps.length);
  const of = (place: number): Estimate => estimates[place]!;
  const first = (step: MapStep, i: number): Estimate => {
    switch (step.step) {
      case "input": {
        const { values, places } = elements[step.input]!;
        return { value: values[places[i]!]!, error: 0 };
      }
      case "parameter":
        return { value: parameters[step.parameter]!.value, error: 0 };
      case "constant":
        return { value: step.value, error: 0 };
      case "index":
        return { value: alongOf.get(step.axis)![i]!, error: 0 };
      default:
        return estimate(step, of, numerics);
    }
  };
  for (let i = 0; i < n; i++) {
    for (let place = 0; place < steps.length; place++) estimates[place] = first(steps[place]!, i);
    visit(i, of);
  }
}

export const evaluate: Evaluate<MapProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const inputs = problem.inputs.map(({ dtype, region, strides }) => ({
    values: memory.read(region, dtype),
    strides,
  }));
  const writes = problem.outputs.map(({ dtype, region }) => memory.write(region, dtype));
  forEachElement({ ...problem, inputs }, numerics, (i, of) => {
    for (const [j, { dtype, result }] of problem.outputs.entries()) {
      const { value, error } = stored(of(result), dtype, numerics);
      writes[j]!(i, value, error);
    }
  });
};
