// Tags: pure
import { evaluateCall } from "@backplane/conformance";
import type { OperationName } from "@backplane/core";
import { expect } from "chai";
import { aloneOf } from "#src/cases/alone.js";
import { generator } from "#src/data.js";

interface Whole {
  readonly operation: OperationName;
  readonly rest: Readonly<Record<string, unknown>>;
  /** Elements of each operand that is read. */
  readonly inputs: Readonly<Record<string, number>>;
  readonly outputs: readonly string[];
  readonly before?: Readonly<Record<string, number>>;
  readonly elementwise?: true;
  readonly parts?: { readonly count: number; readonly rest: Readonly<Record<string, unknown>> };
}

const along = (operation: OperationName, kind: string, names: readonly string[]): readonly Whole[] =>
  [0, 1, 2].map((axis) => ({
    ...{ operation, rest: { kind, shape: [3, 4, 5], axis }, outputs: ["output"] },
    inputs: Object.fromEntries(names.map((name) => [name, 60])),
  }));

const rows = { input: 20, weight: 5 };
const calls: readonly Whole[] = [
  ...along("softmax", "logSoftmax", ["input"]),
  ...along("softmaxGradient", "softmax", ["output", "outputGradient"]).map((call) => ({
    ...call,
    outputs: ["inputGradient"],
  })),
  ...along("argReduce", "argMax", ["input"]),
  ...along("scan", "sum", ["input"]),
  ...[0, 1].map((axis) => ({
    ...{ operation: "reduce" as const, rest: { kind: "logSumExp", shape: [4, 5], axes: [axis] } },
    ...{ inputs: { input: 20 }, outputs: ["output"] },
  })),
  // As many rows as elements of each.
  ...[4, 5].map((count) => ({
    ...{ operation: "normalize" as const, rest: { kind: "layer", rows: count, size: 5 } },
    ...{ inputs: { input: 5 * count, weight: 5, bias: 5 }, outputs: ["output"] },
  })),
  {
    ...{ operation: "normalizeGradient", rest: { kind: "layer", rows: 4, size: 5 } },
    inputs: { ...rows, outputGradient: 20, mean: 4, inverseDeviation: 4 },
    outputs: ["inputGradient", "weightGradient"],
  },
  {
    ...{ operation: "copy", rest: { shape: [3, 2, 4], inputStrides: [4, 12, 1] } },
    ...{ inputs: { input: 24 }, outputs: ["output"] },
  },
  {
    ...{ operation: "copy", rest: { shape: [3, 4], inputStrides: [4, -1], outputDtype: "f16" } },
    ...{ inputs: { input: 12 }, outputs: ["output"], before: { input: 3 } },
  },
  ...["neighbours", "halves"].map((kind) => ({
    ...{ operation: "rope" as const, rest: { kind, batch: 2, heads: 2, rows: 3, size: 4, length: 3 } },
    ...{ inputs: { input: 48, cos: 6, sin: 6 }, outputs: ["output"] },
  })),
  { operation: "random", rest: { kind: "normal", count: 9, seed: 7 }, inputs: {}, outputs: ["output"] },
  {
    ...{ operation: "quantize", rest: { n: 3, k: 64, bits: 8, block: 32 } },
    ...{ inputs: { input: 192 }, outputs: ["b", "scales"] },
  },
  {
    ...{ operation: "unary", rest: { kind: "exp", n: 6 }, elementwise: true },
    ...{ inputs: { input: 6 }, outputs: ["output"] },
  },
  {
    ...{ operation: "pool2d", rest: { kind: "mean", inputShape: [2, 3, 4, 4], kernel: [2, 2] } },
    ...{ inputs: { input: 96 }, outputs: ["output"] },
    parts: { count: 6, rest: { inputShape: [1, 1, 4, 4] } },
  },
];

describe("smaller calls that have one result", () => {
  for (const call of calls)
    it(`of ${call.operation} ${JSON.stringify(call.rest)}`, () => {
      const { operation, rest, inputs, outputs } = call;
      const [output] = outputs;
      const random = generator(3);
      const data = Object.fromEntries(
        Object.entries(inputs).map(([name, count]) => [
          name,
          Float64Array.from({ length: count }, () => Math.fround(random() + 0.1)),
        ]),
      );
      const whole = evaluateCall(operation, rest, data, outputs)[output!]!;
      const { length } = whole.values;
      expect(length).to.be.above(2);
      for (let index = 0; index < length; index++) {
        const alone = aloneOf(call, length, index);
        const slices = Object.entries(data).map(([name, all]) => {
          const { count, place } = alone.slice(name, all.length);
          const values = Float64Array.from({ length: count }, (_, i) => all[place(i)]!);
          return [name, values] as const;
        });
        const own = evaluateCall(operation, alone.rest, Object.fromEntries(slices), outputs)[output!]!;
        expect(own.values.length, "a smaller call").to.be.below(length);
        expect(own.values[alone.own], `element ${index}`).to.equal(whole.values[index]);
        expect(own.tolerances[alone.own], `tolerance ${index}`).to.equal(whole.tolerances[index]);
      }
    });
});
