import { dtypeBytes, type NormalizeProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, storeWholeVectors, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

type Problem = NormalizeProblem<ReferenceMemory>;

const f32 = Math.fround;

const sumOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const meanOf = (values: readonly number[]): number => sumOf(values) / values.length;

/** The steps of the formula that a mutant may replace. */
interface Steps {
  readonly mean?: (x: readonly number[], kind: Problem["kind"]) => number;
  /** Of the squares of x - m. */
  readonly square?: (differences: readonly number[], x: readonly number[], mean: number) => number;
  readonly inverse?: (square: number, epsilon: number) => number;
  readonly weight?: (weight: number, i: number, weights: Float64Array, row: number) => number;
  readonly storedInverse?: (inverse: number, square: number) => number;
}

/** The formula, row by row, with a step or two of one's own. */
function computed(p: Problem, steps: Steps): void {
  const { kind, dtype, rows, size, epsilon } = p;
  const {
    mean = kind === "layer" ? meanOf : () => 0,
    square = (differences) => meanOf(differences.map((d) => d * d)),
    inverse = (v, e) => 1 / Math.sqrt(v + e),
    weight = (own) => own,
    storedInverse = (stored) => stored,
  } = steps;
  const values = load(p.input, dtype);
  const weights = p.weight && load(p.weight, dtype);
  const biases = p.bias && load(p.bias, dtype);
  const store = storeInto(p.output, dtype);
  const storeMean = p.mean && storeInto(p.mean, "f32");
  const storeInverse = p.inverseDeviation && storeInto(p.inverseDeviation, "f32");
  for (let row = 0; row < rows; row++) {
    const x = [...values.subarray(row * size, (row + 1) * size)];
    const middle = mean(x, kind);
    const differences = x.map((value) => value - middle);
    const v = square(differences, x, middle);
    const factor = inverse(v, epsilon);
    storeMean?.(row, middle);
    storeInverse?.(row, storedInverse(factor, v));
    for (const [i, difference] of differences.entries()) {
      const own = weights === undefined ? 1 : weight(weights[i]!, i, weights, row);
      store(row * size + i, difference * factor * own + (biases?.[i] ?? 0));
    }
  }
}

/** Defects of normalize. */
export const normalizeMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => {
  const wrong = (
    name: string,
    defect: Mutant["defect"],
    description: string,
    killedBy: readonly string[],
    steps: Steps,
    applies: (p: Problem) => boolean = () => true,
  ): Mutant => ({
    ...{ name, operation: "normalize", defect, description, killedBy },
    create: () => replaced("normalize", (p, run) => (applies(p) ? computed(p, steps) : run(p))),
  });
  const isLayer = ({ kind }: Problem) => kind === "layer";
  return [
    wrong(
      "takes the mean of squares minus the squared mean",
      "numerics",
      "In f32: nothing is left of a variance far below the squared mean.",
      ["normalize f32: layer: rounds nothing but the mean of a row far from 0"],
      {
        square: (_d, x, m) =>
          Math.max(0, f32(f32(meanOf(x.map((value) => f32(value * value)))) - f32(m * m))),
      },
      isLayer,
    ),
    wrong(
      "divides by size - 1",
      "numerics",
      "The unbiased variance of a sample.",
      ["normalize f32: layer: stays within the error bound"],
      { square: (d) => sumOf(d.map((value) => value * value)) / Math.max(d.length - 1, 1) },
      isLayer,
    ),
    wrong(
      "adds epsilon to the root",
      "numerics",
      "1 / (sqrt(v) + epsilon)",
      [
        "normalize f32: layer: stays within the error bound",
        "normalize f32: rms: counts every element on larger shapes",
      ],
      { inverse: (v, epsilon) => 1 / (Math.sqrt(v) + epsilon) },
    ),
    wrong(
      "always adds 1e-5",
      "numerics",
      "Whatever epsilon is.",
      [
        "normalize f32: layer: stays within the error bound",
        "normalize f32: rms: stays within the error bound",
      ],
      { inverse: (v) => 1 / Math.sqrt(v + 1e-5) },
    ),
    wrong(
      "takes one weight for each row",
      "stride",
      "As of batch normalization.",
      ["normalize f32: rms: stays within the error bound"],
      { weight: (_own, _i, weights, row) => weights[row % weights.length]! },
    ),
    wrong(
      "adds 1 to the weight",
      "numerics",
      "Some models store it so; callers of this operation do not.",
      ["normalize f32: rms: takes ones and zeros for a weight and a bias that are missing"],
      { weight: (own) => own + 1 },
    ),
    wrong(
      "subtracts the mean for rms",
      "numerics",
      "Which makes it a layer norm.",
      ["normalize f32: rms: stays within the error bound"],
      { mean: meanOf },
    ),
    wrong(
      "forgets the end of a row in its statistics",
      "edge",
      "What does not fill a vector of four is not added.",
      [
        "normalize f32: layer: stays within the error bound",
        "normalize f32: rms: counts every element on larger shapes",
      ],
      { square: (d) => sumOf((d.length < 4 ? d : d.slice(0, d.length & ~3)).map((x) => x * x)) / d.length },
    ),
    wrong(
      "counts every part of a row alike",
      "numerics",
      "The mean of the means of parts of 1024, of which the last has fewer.",
      ["normalize f32: layer: counts every element on larger shapes"],
      {
        mean: (x) => {
          const means: number[] = [];
          for (let first = 0; first < x.length; first += 1024)
            means.push(meanOf(x.slice(first, first + 1024)));
          return meanOf(means);
        },
      },
      isLayer,
    ),
    wrong(
      "leaves out how far apart the parts of a row are",
      "numerics",
      "The variance of parts of 1024, each around its own mean.",
      ["normalize f32: layer: counts every element on larger shapes"],
      {
        square: (_d, x) => {
          let sum = 0;
          for (let first = 0; first < x.length; first += 1024) {
            const part = x.slice(first, first + 1024);
            const own = meanOf(part);
            sum += sumOf(part.map((value) => (value - own) ** 2));
          }
          return sum / x.length;
        },
      },
      isLayer,
    ),
    wrong(
      "multiplies by a rounded 1 / size",
      "numerics",
      "The mean of equal elements is then not one of them.",
      ["normalize f32: layer: gives exactly the bias for rows of equal elements"],
      { mean: (x) => f32(x.reduce((a, b) => f32(a + b), 0) * f32(1 / x.length)) },
      isLayer,
    ),
    wrong(
      "adds up in one running f32",
      "numerics",
      "A million times 0.01 comes out wrong in the fourth digit.",
      [
        "normalize f32: layer: stays accurate over many elements",
        "normalize f32: rms: stays accurate over many elements",
      ],
      {
        mean: (x, kind) => (kind === "rms" ? 0 : f32(x.reduce((a, b) => f32(a + b), 0) / x.length)),
        square: (d) => f32(d.reduce((a, b) => f32(a + f32(b * b)), 0) / d.length),
      },
    ),
    wrong(
      "rounds squares to f16",
      "numerics",
      "Before they are added up.",
      ["normalize f32: rms: stays within the error bound"],
      { square: (d) => meanOf(d.map((x) => truncate(x * x, 10))) },
    ),
    wrong(
      "stores the variance",
      "numerics",
      "In place of what makes the results of the deviations.",
      ["normalize f32: layer: stays within the error bound"],
      { storedInverse: (_inverse, square) => square },
    ),
    {
      name: "keeps the weights of an earlier call",
      operation: "normalize",
      defect: "lifecycle",
      description: "By their number: later calls with as many get the same.",
      killedBy: ["normalize f32: layer: stays within the error bound"],
      create: () => {
        const kept = new Map<number, Float64Array>();
        return replaced("normalize", (p) =>
          computed(p, {
            weight: (_own, i, weights) => {
              const known = kept.get(weights.length) ?? weights;
              kept.set(weights.length, known);
              return known[i]!;
            },
          }),
        );
      },
    },
    {
      name: "rounds statistics to f16",
      operation: "normalize",
      defect: "numerics",
      description: "If that is the type of the input.",
      killedBy: ["normalize f16: layer: stays within the error bound"],
      create: () =>
        replaced("normalize", (p, run) => {
          run(p);
          if (p.dtype !== "f16") return;
          for (const region of [p.mean, p.inverseDeviation])
            if (region !== undefined) {
              const store = storeInto(region, "f32");
              for (const [i, value] of load(region, "f32").entries()) store(i, truncate(value, 10));
            }
        }),
    },
    {
      name: "reads what it has just normalized",
      operation: "normalize",
      defect: "order",
      description: "Over its input, results are taken for elements of the second pass.",
      killedBy: ["in-place: normalize may write exactly over its input"],
      create: () =>
        replaced("normalize", (p, run) => {
          const { input, output } = p;
          run(p);
          if (input.memory === output.memory && input.byteOffset === output.byteOffset) run(p);
        }),
    },
    {
      name: "writes a vector past the last normalized row",
      operation: "normalize",
      defect: "edge",
      description: "The last vector of four is stored whole.",
      killedBy: ["normalize f32: touches nothing but the elements of its outputs"],
      create: () =>
        replaced("normalize", (p, run) => {
          run(p);
          storeWholeVectors(p.output, 4 * dtypeBytes[p.dtype]);
        }),
    },
    {
      name: "stores statistics of one row too many",
      operation: "normalize",
      defect: "edge",
      description: "The row after the last one has no elements.",
      killedBy: ["normalize f32: touches nothing but the elements of its outputs"],
      create: () =>
        replaced("normalize", (p, run) => {
          run(p);
          const region = p.inverseDeviation;
          region?.memory.fill(
            0,
            region.byteOffset + region.byteLength,
            region.byteOffset + region.byteLength + 4,
          );
        }),
    },
    {
      name: "loses a NaN in the statistics",
      operation: "normalize",
      defect: "numerics",
      description: "The NaN counts as 0.",
      killedBy: ["numerics f32: normalize: makes a row with a NaN NaN, and no other"],
      create: () =>
        tampered("normalize", (p) => ({
          ...p,
          input: mapped(p.input, p.dtype, (x) => (Number.isNaN(x) ? 0 : x)),
        })),
    },
    {
      name: "shares the statistics of rows side by side",
      operation: "normalize",
      defect: "indexing",
      description: "Every second row takes those of the row before it.",
      killedBy: ["normalize f32: layer: stays within the error bound"],
      create: () =>
        replaced("normalize", (p) => {
          let [calls, before] = [0, 0];
          computed(p, {
            square: (d) => {
              if (calls++ % 2 === 0) before = meanOf(d.map((x) => x * x));
              return before;
            },
          });
        }),
    },
  ];
};
