import { dtypeBytes, type SoftmaxGradientProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { storeWholeVectors, truncate } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

type Problem = SoftmaxGradientProblem<ReferenceMemory>;

const f32 = Math.fround;

/** The steps of the formula that a mutant may replace. */
interface Steps {
  readonly term?: (y: number, dy: number, kind: Problem["kind"]) => number;
  readonly sum?: (terms: readonly number[]) => number;
  readonly result?: (y: number, dy: number, sum: number, kind: Problem["kind"]) => number;
}

const sumOf = (terms: readonly number[]): number => terms.reduce((a, b) => a + b, 0);

/** The formula, row by row, with a step or two of one's own. */
function computed(p: Problem, steps: Steps): void {
  const { kind, dtype, outer, length, inner } = p;
  const {
    term = (y, dy) => (kind === "softmax" ? y * dy : dy),
    sum = sumOf,
    result = (y, dy, total) => (kind === "softmax" ? y * (dy - total) : dy - Math.exp(y) * total),
  } = steps;
  const [y, dy] = [load(p.output, dtype), load(p.outputGradient, dtype)];
  const store = storeInto(p.inputGradient, dtype);
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const places = Array.from({ length }, (_, j) => (o * length + j) * inner + i);
      const total = sum(places.map((at) => term(y[at]!, dy[at]!, kind)));
      for (const at of places) store(at, result(y[at]!, dy[at]!, total, kind));
    }
}

/** Defects of softmaxGradient. */
export const softmaxGradientMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => {
  const wrong = (
    name: string,
    defect: Mutant["defect"],
    description: string,
    killedBy: readonly string[],
    steps: Steps,
  ): Mutant => ({
    ...{ name, operation: "softmaxGradient", defect, description, killedBy },
    create: () => replaced("softmaxGradient", (p) => computed(p, steps)),
  });
  const bound = (kind: string, dtype = "f32") =>
    `softmaxGradient ${dtype}: ${kind}: stays within the error bound`;
  return [
    {
      name: "sums gradients along the last axis",
      operation: "softmaxGradient",
      defect: "stride",
      description: "Whatever the axis is.",
      killedBy: [bound("softmax"), bound("logSoftmax")],
      create: () =>
        tampered("softmaxGradient", (p) =>
          p.inner === 1 ? p : { ...p, outer: p.outer * p.length, length: p.inner, inner: 1 },
        ),
    },
    wrong(
      "leaves out the sum of a softmax's gradient",
      "numerics",
      "As if each output depended on its own input alone.",
      [
        bound("softmax"),
        "softmaxGradient f32: softmax: is the slope of the forward operation",
        "softmaxGradient f32: softmax: is 0 for a gradient that is the same for all of a row",
      ],
      { result: (y, dy, sum, kind) => (kind === "softmax" ? y * dy : dy - Math.exp(y) * sum) },
    ),
    wrong(
      "adds up gradients without their weights",
      "numerics",
      "The sum of logSoftmax in softmax.",
      [bound("softmax"), "softmaxGradient f32: softmax: is the slope of the forward operation"],
      { term: (_y, dy) => dy },
    ),
    wrong(
      "takes a logarithm for its weight",
      "numerics",
      "logSoftmax as if its output were that of softmax.",
      [bound("logSoftmax"), "softmaxGradient f32: logSoftmax: is the slope of the forward operation"],
      { result: (y, dy, sum, kind) => (kind === "softmax" ? y * (dy - sum) : dy - y * sum) },
    ),
    wrong(
      "adds a gradient's terms up in one running f32",
      "numerics",
      "A million times 0.1 comes out wrong in the fourth digit.",
      [
        "softmaxGradient f32: softmax: stays accurate over many elements",
        "softmaxGradient f32: logSoftmax: stays accurate over many elements",
      ],
      { sum: (terms) => terms.reduce((a, b) => f32(a + b), 0) },
    ),
    wrong(
      "rounds products of a gradient to f16",
      "numerics",
      "Before they are added up.",
      [bound("softmax")],
      { term: (y, dy, kind) => (kind === "softmax" ? truncate(y * dy, 10) : dy) },
    ),
    wrong(
      "forgets the end of a row in a gradient's sum",
      "edge",
      "What does not fill a vector of four is not added.",
      [bound("softmax"), "softmaxGradient f32: softmax: is exact on whole numbers"],
      { sum: (terms) => sumOf(terms.length < 4 ? terms : terms.slice(0, terms.length & ~3)) },
    ),
    wrong(
      "forgets the second part of a long row of gradients",
      "edge",
      "From element 8192 on.",
      [
        "softmaxGradient f32: softmax: is exact on whole numbers",
        "softmaxGradient f32: logSoftmax: stays within it on larger shapes",
      ],
      { sum: (terms) => sumOf(terms.slice(0, 8192)) },
    ),
    {
      name: "adds gradients of rows side by side together",
      operation: "softmaxGradient",
      defect: "indexing",
      description: "Each row also gets the sum of the one before it.",
      killedBy: ["softmaxGradient f32: softmax: has the same bits in a row, whatever the others hold"],
      create: () =>
        replaced("softmaxGradient", (p) => {
          let before = 0;
          computed(p, {
            sum: (terms) => {
              const own = sumOf(terms);
              const both = own + before;
              before = own;
              return both;
            },
          });
        }),
    },
    {
      name: "reads a gradient that it has just written",
      operation: "softmaxGradient",
      defect: "order",
      description: "Over one of its inputs, results are taken for elements of the second pass.",
      killedBy: ["in-place: softmaxGradient may write exactly over either input"],
      create: () =>
        replaced("softmaxGradient", (p, run) => {
          const { output, outputGradient, inputGradient } = p;
          run(p);
          for (const { memory, byteOffset } of [output, outputGradient])
            if (memory === inputGradient.memory && byteOffset === inputGradient.byteOffset) run(p);
        }),
    },
    {
      name: "writes a vector past the last gradient",
      operation: "softmaxGradient",
      defect: "edge",
      description: "The last vector of four is stored whole.",
      killedBy: ["softmaxGradient f32: touches nothing but the elements of its output"],
      create: () =>
        replaced("softmaxGradient", (p, run) => {
          run(p);
          storeWholeVectors(p.inputGradient, 4 * dtypeBytes[p.dtype]);
        }),
    },
    {
      name: "keeps the sums of an earlier gradient",
      operation: "softmaxGradient",
      defect: "lifecycle",
      description: "In memory of its own, by the shape: a later call of the same shape finds them there.",
      killedBy: ["ordering: softmaxGradient: uses its operands as they are at the call"],
      create: () => {
        const kept = new Map<string, number[]>();
        return replaced("softmaxGradient", (p) => {
          const shape = [p.outer, p.length, p.inner].join();
          const before = kept.get(shape);
          const sums: number[] = [];
          computed(p, {
            sum: (terms) => {
              sums.push(sumOf(terms));
              return before?.[sums.length - 1] ?? sums.at(-1)!;
            },
          });
          kept.set(shape, sums);
        });
      },
    },
  ];
};
