import type { FloatType } from "@backplane/core";
import { load, type Place, storeInto } from "../../elements.js";
import { mapped, remembering } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import type { Conv2dShape } from "../conv2d/formula.js";
import type { Gradient } from "./cases.js";

interface GradientProblem extends Conv2dShape {
  readonly dtype: FloatType;
  readonly outputGradient: Place;
  readonly accumulate: boolean;
}

/** Defects that either gradient may have. */
export function gradientMutants(
  { operation, other, result }: Pick<Gradient, "operation" | "other" | "result">,
  { tampered, replaced }: Builder,
): readonly Mutant[] {
  // Both problems have these fields, besides two operands whose names are given.
  const changed = (change: (problem: GradientProblem) => Partial<GradientProblem>) => () =>
    tampered(operation, (problem) => ({ ...problem, ...change(problem) }));
  const placeOf = (problem: object, operand: string) =>
    (problem as Readonly<Record<string, Place>>)[operand]!;
  const laws = (...names: readonly string[]) => names.map((name) => `${operation} f32: ${name}`);
  const exact = "is exact on whole numbers";
  return [
    {
      ...{ name: `swaps padding at the top and at the left in ${operation}`, operation },
      defect: "indexing",
      description: "Invisible with symmetric padding.",
      killedBy: laws("takes padding as top, left, bottom, right", exact),
      create: changed((p) => ({ top: p.left, left: p.top })),
    },
    {
      ...{ name: `ignores dilation along x in ${operation}`, operation },
      defect: "stride",
      description: "One of two dilations is taken for both.",
      killedBy: laws(exact),
      create: changed((p) => ({ dilationX: p.dilationY })),
    },
    {
      ...{ name: `is one off where windows lie two apart in ${operation}`, operation },
      defect: "edge",
      description: "Even and odd pixels are computed by turns, and begin with the wrong ones.",
      killedBy: laws(exact, "is the adjoint of the convolution"),
      create: changed((p) => (p.strideX === 2 ? { left: p.left + 1 } : {})),
    },
    {
      ...{ name: `overwrites what it should add to in ${operation}`, operation },
      defect: "memory",
      description: "The argument is read by one of two kernels only.",
      killedBy: laws(exact, "adds up over parts of the sum"),
      create: changed(() => ({ accumulate: false })),
    },
    {
      ...{ name: `adds to what it should overwrite in ${operation}`, operation },
      defect: "memory",
      description: "Right as long as memory is fresh.",
      killedBy: laws(exact),
      create: changed(() => ({ accumulate: true })),
    },
    {
      ...{ name: `rounds to f16 before it adds to the result of ${operation}`, operation },
      defect: "numerics",
      description: "A gradient in f16, and then a sum in f16: two roundings.",
      killedBy: [`${operation} f16: stays within the error bound`],
      create: () =>
        replaced(operation, (problem, run) => {
          const target = placeOf(problem, result);
          if (!problem.accumulate || problem.dtype !== "f16") return run(problem);
          const before = load(target, problem.dtype);
          run({ ...problem, accumulate: false });
          const store = storeInto(target, problem.dtype);
          for (const [i, value] of load(target, problem.dtype).entries()) store(i, before[i]! + value);
        }),
    },
    {
      ...{ name: `drops the last row of the output's gradient in ${operation}`, operation },
      defect: "edge",
      description: "A loop over rows ends one early if there are an odd number of them.",
      killedBy: laws(exact, "is the adjoint of the convolution"),
      create: () =>
        tampered(operation, (p) => ({
          ...p,
          outputGradient: mapped(p.outputGradient, p.dtype, (value, i) =>
            p.outHeight % 2 === 1 && rowOf(p, i) === p.outHeight - 1 ? 0 : value,
          ),
        })),
    },
    {
      ...{ name: `drops the last output channel of groups of several in ${operation}`, operation },
      defect: "edge",
      description: "The end of a sum, or of a block of results, is taken for that of the last group.",
      killedBy: laws(exact, "gives groups what each of them gives by itself"),
      create: () =>
        tampered(operation, (p) => {
          const outputs = p.outChannels / p.groups;
          const isLost = (channel: number) =>
            channel % outputs === outputs - 1 && channel < p.outChannels - 1;
          return {
            ...p,
            outputGradient: mapped(p.outputGradient, p.dtype, (value, i) =>
              isLost(channelOf(p, i)) ? 0 : value,
            ),
          };
        }),
    },
    {
      ...{ name: `takes channels last for channels first in ${operation}`, operation },
      defect: "stride",
      description: "Only the shapes are in the order of the layout.",
      killedBy: laws("takes images with channels last"),
      create: changed(() => ({ layout: "NCHW" })),
    },
    {
      ...{ name: `keeps an operand of an earlier call of ${operation}`, operation },
      defect: "lifecycle",
      description: "It is prepared once for each place in memory, whatever is written there later.",
      killedBy: [`ordering: ${operation}: uses its operands as they are at the call`],
      create: () => {
        const remember = remembering();
        return tampered(operation, (problem) => ({ ...problem, [other]: remember(placeOf(problem, other)) }));
      },
    },
  ];
}

/** The row of an element of the output's gradient. */
export function rowOf({ layout, outChannels, outHeight, outWidth }: Conv2dShape, index: number): number {
  const pixel = layout === "NCHW" ? index : Math.floor(index / outChannels);
  return Math.floor(pixel / outWidth) % outHeight;
}

function channelOf({ layout, outChannels, outHeight, outWidth }: Conv2dShape, index: number): number {
  return (layout === "NCHW" ? Math.floor(index / (outHeight * outWidth)) : index) % outChannels;
}
