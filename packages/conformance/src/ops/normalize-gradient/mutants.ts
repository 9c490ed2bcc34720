import { dtypeBytes, type NormalizeGradientProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { storeWholeVectors } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

type Problem = NormalizeGradientProblem<ReferenceMemory>;

const f32 = Math.fround;

const sumOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

/** The steps of the formula that a mutant may replace. */
interface Steps {
  readonly mean?: (x: readonly number[], kind: Problem["kind"]) => number;
  readonly epsilon?: number;
  /** The weight of an element, given all of them. */
  readonly weight?: (weights: Float64Array, i: number, row: number) => number;
  readonly result?: (
    g: number,
    h: number,
    meanG: number,
    meanGh: number,
    inverse: number,
    kind: Problem["kind"],
  ) => number;
  /** The term of a weight's gradient, and how terms of either sum are added. */
  readonly term?: (dy: number, h: number, weight: number) => number;
  readonly sum?: (terms: readonly number[]) => number;
  readonly total?: (old: number, sum: number, accumulate: boolean) => number;
}

/** The formula with a step or two of one's own. */
function computed(p: Problem, steps: Steps): void {
  const { kind, dtype, rows, size, accumulate } = p;
  const {
    mean = (x, own) => (own === "layer" ? sumOf(x) / x.length : 0),
    epsilon = p.epsilon,
    weight = (weights, i) => weights[i]!,
    result = (g, h, meanG, meanGh, inverse) => inverse * (g - (kind === "layer" ? meanG : 0) - h * meanGh),
    term = (dy, h) => dy * h,
    sum = sumOf,
    total = (old, own, adds) => (adds ? old + own : own),
  } = steps;
  const [x, dy] = [load(p.input, dtype), load(p.outputGradient, dtype)];
  const weights = p.weight && load(p.weight, dtype);
  const means = p.mean && load(p.mean, "f32");
  const inverses = p.inverseDeviation && load(p.inverseDeviation, "f32");
  const store = p.inputGradient && storeInto(p.inputGradient, dtype);
  const columns = Array.from({ length: size }, () => ({ weights: [] as number[], biases: [] as number[] }));
  for (let row = 0; row < rows; row++) {
    const own = [...x.subarray(row * size, (row + 1) * size)];
    const middle = means?.[row] ?? (inverses === undefined ? mean(own, kind) : 0);
    const square = sumOf(own.map((value) => (value - middle) ** 2)) / size;
    const inverse = inverses?.[row] ?? 1 / Math.sqrt(square + epsilon);
    const h = own.map((value) => (value - middle) * inverse);
    const factor = (i: number) => (weights === undefined ? 1 : weight(weights, i, row));
    const g = h.map((_, i) => dy[row * size + i]! * factor(i));
    const meanG = sumOf(g) / size;
    const meanGh = sumOf(g.map((value, i) => value * h[i]!)) / size;
    for (let i = 0; i < size; i++) {
      store?.(row * size + i, result(g[i]!, h[i]!, meanG, meanGh, inverse, kind));
      columns[i]!.weights.push(term(dy[row * size + i]!, h[i]!, factor(i)));
      columns[i]!.biases.push(dy[row * size + i]!);
    }
  }
  for (const [region, name] of [
    [p.weightGradient, "weights"],
    [p.biasGradient, "biases"],
  ] as const) {
    if (region === undefined) continue;
    const before = load(region, dtype);
    const storeSum = storeInto(region, dtype);
    for (let i = 0; i < size; i++) storeSum(i, total(before[i]!, sum(columns[i]![name]), accumulate));
  }
}

/** Defects of normalizeGradient. */
export const normalizeGradientMutants = ({ replaced }: Builder): readonly Mutant[] => {
  const wrong = (
    name: string,
    defect: Mutant["defect"],
    description: string,
    killedBy: readonly string[],
    steps: Steps,
  ): Mutant => ({
    ...{ name, operation: "normalizeGradient", defect, description, killedBy },
    create: () => replaced("normalizeGradient", (p) => computed(p, steps)),
  });
  const id = (kind: string, name: string, dtype = "f32") => `normalizeGradient ${dtype}: ${kind}: ${name}`;
  const [bound, slope] = ["stays within the error bound", "is the slope of the forward operation"];
  return [
    wrong(
      "takes the mean of a row for a constant",
      "numerics",
      "Leaves out mean(g).",
      [
        id("layer", bound),
        id("layer", slope),
        id("layer", "is 0 for an output gradient that is the same for all of a row"),
      ],
      { result: (g, h, _meanG, meanGh, inverse) => inverse * (g - h * meanGh) },
    ),
    wrong(
      "takes the deviation of a row for a constant",
      "numerics",
      "Leaves out h mean(g h).",
      [id("layer", slope), id("rms", bound), id("rms", slope)],
      { result: (g, _h, meanG, _meanGh, inverse, kind) => inverse * (g - (kind === "layer" ? meanG : 0)) },
    ),
    wrong(
      "subtracts the mean of gradients for rms",
      "numerics",
      "Which makes it that of a layer norm.",
      [id("rms", bound), id("rms", slope)],
      { result: (g, h, meanG, meanGh, inverse) => inverse * (g - meanG - h * meanGh) },
    ),
    wrong(
      "always takes an epsilon of 1e-5 for gradients",
      "numerics",
      "If statistics are computed.",
      [id("layer", slope), id("rms", slope)],
      { epsilon: 1e-5 },
    ),
    wrong(
      "takes one weight for the gradients of each row",
      "stride",
      "As of batch normalization.",
      [id("layer", bound), id("rms", slope)],
      { weight: (weights, _i, row) => weights[row % weights.length]! },
    ),
    wrong(
      "multiplies the gradient of a weight by the weight",
      "numerics",
      "Sums g h instead of dy h.",
      [id("layer", bound), id("rms", slope)],
      { term: (dy, h, weight) => dy * h * weight },
    ),
    wrong(
      "adds rows up in one running f32",
      "numerics",
      "A hundred thousand times 0.06 comes out wrong in the fifth digit.",
      [
        id("layer", "stays accurate over many rows and elements"),
        id("rms", "stays accurate over many rows and elements"),
      ],
      { sum: (terms) => terms.reduce((a, b) => f32(a + f32(b)), 0) },
    ),
    wrong(
      "forgets the last rows in sums over rows",
      "edge",
      "Those that do not fill a group of four.",
      [id("layer", "adds up whole numbers exactly"), id("rms", "counts every element on larger shapes")],
      { sum: (terms) => sumOf(terms.length < 4 ? terms : terms.slice(0, terms.length & ~3)) },
    ),
    wrong(
      "forgets to accumulate gradients",
      "numerics",
      "Writes over what was there.",
      [
        id("layer", "adds up whole numbers exactly"),
        id("rms", "adds up the sums of parts of the rows to those of all"),
      ],
      { total: (_old, sum) => sum },
    ),
    wrong(
      "always accumulates gradients",
      "memory",
      "Whether or not that is wanted.",
      [id("layer", bound), id("layer", "has sums of 0 for no rows, and leaves them if they are accumulated")],
      { total: (old, sum) => old + sum },
    ),
    {
      name: "leaves sums over no rows as they are",
      operation: "normalizeGradient",
      defect: "edge",
      description: "They should be 0.",
      killedBy: [id("layer", "has sums of 0 for no rows, and leaves them if they are accumulated")],
      create: () => replaced("normalizeGradient", (p, run) => p.rows > 0 && run(p)),
    },
    {
      name: "shares the gradients' statistics of rows side by side",
      operation: "normalizeGradient",
      defect: "indexing",
      description: "Every second row takes the mean of the row before it.",
      killedBy: [id("layer", bound), id("layer", slope)],
      create: () =>
        replaced("normalizeGradient", (p) => {
          let [calls, before] = [0, 0];
          computed(p, {
            mean: (x, kind) => {
              if (kind === "layer" && calls++ % 2 === 0) before = sumOf(x) / x.length;
              return kind === "layer" ? before : 0;
            },
          });
        }),
    },
    {
      name: "adds the mean of gradients of one row to those of the next",
      operation: "normalizeGradient",
      defect: "lifecycle",
      description: "A sum in workgroup memory that is not reset.",
      killedBy: [
        id("layer", bound),
        id("layer", "has the same bits in a row, whatever the others hold"),
        id("rms", "has the same bits in a row, whatever the others hold"),
      ],
      create: () =>
        replaced("normalizeGradient", (p) => {
          let [left, place] = [0, 0];
          computed(p, {
            result(g, h, meanG, meanGh, inverse, kind) {
              const own = inverse * (g - (kind === "layer" ? meanG : 0) - h * (meanGh + left));
              place++;
              if (place % p.size === 0) left = meanGh;
              return own;
            },
          });
        }),
    },
    {
      name: "reads a row's gradient that it has just written",
      operation: "normalizeGradient",
      defect: "order",
      description: "Over one of its inputs, results are taken for elements of the second pass.",
      killedBy: ["in-place: normalizeGradient may write exactly over either input"],
      create: () =>
        replaced("normalizeGradient", (p, run) => {
          const { input, outputGradient, inputGradient } = p;
          run(p);
          for (const { memory, byteOffset } of [input, outputGradient])
            if (memory === inputGradient?.memory && byteOffset === inputGradient.byteOffset) run(p);
        }),
    },
    {
      name: "sums gradients after it has written over them",
      operation: "normalizeGradient",
      defect: "order",
      description:
        "The weight's gradient, of results in place of the output's gradient: it is not a gradient of the bias.",
      killedBy: [id("layer", "touches nothing but the elements of its outputs").replace("layer: ", "")],
      create: () =>
        replaced("normalizeGradient", (p, run) => {
          run(p);
          const { inputGradient, biasGradient } = p;
          if (inputGradient !== undefined && biasGradient !== undefined)
            run({ ...p, outputGradient: inputGradient, inputGradient: undefined, weightGradient: undefined });
        }),
    },
    {
      name: "writes a vector past the gradient of a weight",
      operation: "normalizeGradient",
      defect: "edge",
      description: "The last vector of four is stored whole.",
      killedBy: ["normalizeGradient f32: touches nothing but the elements of its outputs"],
      create: () =>
        replaced("normalizeGradient", (p, run) => {
          run(p);
          for (const region of [p.inputGradient, p.weightGradient]) {
            if (region === undefined) continue;
            storeWholeVectors(region, 4 * dtypeBytes[p.dtype]);
          }
        }),
    },
  ];
};
