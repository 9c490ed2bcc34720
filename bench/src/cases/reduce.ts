import { period } from "../data.js";
import { type Case, type CaseOptions, epsilon, type Inputs, operationCase } from "./case.js";

/** Reduces a contiguous array over one axis, or over all of them. */
export function reduce(
  kind: "sum" | "max",
  shape: readonly number[],
  axis: number | "all",
  options: CaseOptions = {},
): Case {
  const product = (extents: readonly number[]) => extents.reduce((a, b) => a * b, 1);
  const whole = product(shape);
  const count = axis === "all" ? whole : shape[axis]!;
  const step = axis === "all" ? 1 : product(shape.slice(axis + 1));
  const along = axis === "all" ? "all" : `axis ${axis}`;
  return operationCase({
    name: `${kind} of ${shape.join(" x ")}, ${along}`,
    operation: "reduce",
    dtype: "f32",
    inputs: { input: whole },
    output: { argument: "output", elements: whole / count },
    args: ({ input, output }) => ({
      kind,
      shape,
      ...(axis === "all" ? {} : { axes: [axis] }),
      input: input!,
      output: output!,
    }),
    expected(inputs, index) {
      const first = Math.floor(index / step) * step * count + (index % step);
      const { sum, magnitude, largest } = totals(inputs, first, count, step);
      // A tree, or accumulators of sqrt(count) terms each, is far inside this; a running sum is not.
      return kind === "max"
        ? { value: largest, tolerance: 0 }
        : { value: sum, tolerance: 2 * Math.sqrt(count) * epsilon.f32 * magnitude };
    },
    problem: { kind, shape, axis },
    ...options,
  });
}

function totals({ input }: Inputs, first: number, count: number, step: number) {
  let [sum, magnitude, largest] = [0, 0, Number.NEGATIVE_INFINITY];
  const add = (from: number, to: number) => {
    for (let i = from; i < to; i++) {
      const value = input!.at(first + i * step);
      sum += value;
      magnitude += Math.abs(value);
      largest = Math.max(largest, value);
    }
  };
  // Data repeat, so that a long sum need not be added up term by term.
  const whole = Math.floor(count / period);
  if (whole > 0) {
    add(0, period);
    sum *= whole;
    magnitude *= whole;
  }
  add(whole * period, count);
  return { sum, magnitude, largest };
}
