import { type NumberReduceKind, numberReduceKinds, type ReduceArguments } from "@backplane/core";
import type { Call } from "../checks.js";
import { numbers, type Plan } from "../plan.js";

interface Fold {
  readonly start: number;
  readonly join: (total: number, x: number) => number;
  readonly finish?: (total: number, count: number) => number;
}

const sum = (total: number, x: number): number => total + x;

/** ln(e^total + e^x) */
function addExponentials(total: number, x: number): number {
  const larger = Math.max(total, x);
  return Math.abs(larger) === Number.POSITIVE_INFINITY
    ? larger
    : larger + Math.log1p(Math.exp(Math.min(total, x) - larger));
}

const folds: Readonly<Record<NumberReduceKind, Fold>> = {
  sum: { start: 0, join: sum },
  mean: { start: 0, join: sum, finish: (total, count) => total / count },
  max: { start: Number.NEGATIVE_INFINITY, join: Math.max },
  min: { start: Number.POSITIVE_INFINITY, join: Math.min },
  prod: { start: 1, join: (total, x) => total * x },
  logSumExp: { start: Number.NEGATIVE_INFINITY, join: addExponentials },
};

export function planReduce(call: Call, args: ReduceArguments): Plan | undefined {
  const fold = folds[call.choice("kind", args.kind, numberReduceKinds)];
  const shape = call.wholes("shape", args.shape);
  const isReduced = reducedAxes(call, shape.length, args.axes);
  const outputCount = call.count(
    "shape",
    shape.filter((_, axis) => !isReduced[axis]),
  );
  const foldedCount = call.count(
    "shape",
    shape.filter((_, axis) => isReduced[axis]),
  );
  const input = call.place("input", args.input, call.count("shape", shape), 4);
  const output = call.place("output", args.output, outputCount, 4);
  call.apart(["output", output], ["input", input], "never");
  if (outputCount === 0) return undefined;

  // How far the output moves with each axis of the input.
  const strides = new Array<number>(shape.length).fill(0);
  for (let axis = shape.length - 1, stride = 1; axis >= 0; axis--) {
    if (isReduced[axis]) continue;
    strides[axis] = stride;
    stride *= shape[axis]!;
  }
  return {
    output,
    inputs: [input],
    compute(bytes, [inputBytes]) {
      const totals = new Float64Array(outputCount).fill(fold.start);
      const index = new Array<number>(shape.length).fill(0);
      let at = 0;
      for (const x of numbers(inputBytes!, input)) {
        totals[at] = fold.join(totals[at]!, x);
        // On to the next element: like the wheels of a counter, the last axis first.
        for (let axis = shape.length - 1; axis >= 0; axis--) {
          at += strides[axis]!;
          if (++index[axis]! < shape[axis]!) break;
          at -= strides[axis]! * shape[axis]!;
          index[axis] = 0;
        }
      }
      const { finish = (total: number) => total } = fold;
      numbers(bytes, output).set(totals.map((total) => finish(total, foldedCount)));
    },
  };
}

function reducedAxes(call: Call, rank: number, axes: unknown): readonly boolean[] {
  const isReduced = new Array<boolean>(rank).fill(axes === undefined);
  if (axes === undefined) return isReduced;
  if (!Array.isArray(axes)) call.refuse("axes", axes, "a list of axes");
  for (const given of axes) {
    const axis = Number.isInteger(given) && given < 0 ? given + rank : given;
    if (!Number.isInteger(axis) || axis < 0 || axis >= rank || isReduced[axis])
      call.refuse("axes", axes, `each axis once, from ${-rank} to ${rank - 1}`);
    isReduced[axis] = true;
  }
  return isReduced;
}
