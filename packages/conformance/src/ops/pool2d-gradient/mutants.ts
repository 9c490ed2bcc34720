import type { Pool2dGradientProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, remembering } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { poolGradient } from "./formula.js";

type Problem = Pool2dGradientProblem<ReferenceMemory>;

/** Computes all, and passes each result and its place through a function. */
function changed(p: Problem, change: (x: number, index: number) => number): void {
  const store = storeInto(p.inputGradient, p.dtype);
  const gradient = load(p.outputGradient, p.dtype);
  poolGradient(p, gradient, p.indices && load(p.indices, "i32"), (index, x) =>
    store(index, change(x, index)),
  );
}

/** Defects of pool2dGradient. */
export const pool2dGradientMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "lets the last window win",
    operation: "pool2dGradient",
    defect: "numerics",
    description: "Of windows that overlap, as stores without a sum do.",
    killedBy: [
      "pool2dGradient f32: max: is exact on whole numbers",
      "pool2dGradient f16: max: hands on all that it gets",
    ],
    create: () =>
      replaced("pool2dGradient", (p, run) => {
        run(p);
        if (p.indices === undefined) return;
        const store = storeInto(p.inputGradient, p.dtype);
        const gradient = load(p.outputGradient, p.dtype);
        const { outHeight, outWidth, inner, height, width } = p;
        for (const [i, place] of load(p.indices, "i32").entries()) {
          const plane = Math.floor(i / (outHeight * outWidth * inner));
          if (place >= 0 && place < height * width)
            store((plane * height * width + place) * inner + (i % inner), gradient[i]!);
        }
      }),
  },
  {
    name: "believes every index",
    operation: "pool2dGradient",
    defect: "indexing",
    description: "One next to the window counts, though it is no element of it.",
    killedBy: ["pool2dGradient f32: max: takes nothing of windows whose index is none of theirs"],
    create: () =>
      tampered("pool2dGradient", (p) =>
        p.kind === "max" && p.dilationY * p.dilationX === 1
          ? {
              ...{ ...p, top: p.top + 1, left: p.left + 1 },
              ...{ kernelHeight: p.kernelHeight + 2, kernelWidth: p.kernelWidth + 2 },
            }
          : p,
      ),
  },
  {
    name: "divides gradients by the places of the kernel",
    operation: "pool2dGradient",
    defect: "numerics",
    description: "Though some of them are not in the input.",
    killedBy: [
      "pool2dGradient f32: mean: stays within the error bound",
      "pool2dGradient f16: mean: takes extents that are rounded up, or down",
    ],
    create: () =>
      tampered("pool2dGradient", (p) => ({ ...p, countPadding: true, bottom: 2 ** 30, right: 2 ** 30 })),
  },
  {
    name: "never divides by padding",
    operation: "pool2dGradient",
    defect: "numerics",
    description: "Shares of all windows are those of means of the elements inside.",
    killedBy: ["pool2dGradient f32: mean: is exact on whole numbers"],
    create: () => tampered("pool2dGradient", (p) => ({ ...p, countPadding: false })),
  },
  {
    name: "exchanges the padding above and on the left",
    operation: "pool2dGradient",
    defect: "indexing",
    description: "Windows begin elsewhere.",
    killedBy: [
      "pool2dGradient f32: max: takes padding as top, left, bottom, right",
      "pool2dGradient f16: mean: takes padding as top, left, bottom, right",
    ],
    create: () => tampered("pool2dGradient", (p) => ({ ...p, left: p.top, top: p.left })),
  },
  {
    name: "forgets the dilation of windows",
    operation: "pool2dGradient",
    defect: "stride",
    description: "Their elements are taken for neighbours.",
    killedBy: ["pool2dGradient f32: mean: stays within the error bound"],
    create: () => tampered("pool2dGradient", (p) => ({ ...p, dilationY: 1, dilationX: 1 })),
  },
  {
    name: "gives nothing to the last column",
    operation: "pool2dGradient",
    defect: "edge",
    description: "Of odd widths, as kernels do that work in pairs: what was there stays.",
    killedBy: [
      "pool2dGradient f32: touches nothing but the elements of its output",
      "pool2dGradient f16: mean: hands on all that it gets",
    ],
    create: () =>
      replaced("pool2dGradient", (p) =>
        changed(p, (x, i) =>
          p.width % 2 === 1 && Math.floor(i / p.inner) % p.width === p.width - 1 ? 0 : x,
        ),
      ),
  },
  {
    name: "adds to the gradient that was there",
    operation: "pool2dGradient",
    defect: "lifecycle",
    description: "As scattered sums do on memory that nobody has cleared.",
    killedBy: ["pool2dGradient f32: max: is exact on whole numbers"],
    create: () =>
      replaced("pool2dGradient", (p) => {
        const before = load(p.inputGradient, p.dtype);
        changed(p, (x, i) => x + before[i]!);
      }),
  },
  {
    name: "gives all to the first image",
    operation: "pool2dGradient",
    defect: "stride",
    description: "With NHWC, whose indices count pixels of one image.",
    killedBy: ["pool2dGradient f32: max: of several images is that of each"],
    create: () =>
      tampered("pool2dGradient", (p) =>
        p.inner > 1 && p.planes > 1 && p.indices !== undefined
          ? {
              ...p,
              indices: mapped(p.indices, "i32", (place, i) =>
                i < p.outHeight * p.outWidth * p.inner ? place : place - p.height * p.width,
              ),
            }
          : p,
      ),
  },
  {
    name: "keeps the gradients of an earlier call",
    operation: "pool2dGradient",
    defect: "lifecycle",
    description: "By their place: a later call finds them, whatever they are.",
    killedBy: ["ordering: pool2dGradient: uses its operands as they are at the call"],
    create: () => {
      const recall = remembering();
      return replaced("pool2dGradient", (p, run) => run({ ...p, outputGradient: recall(p.outputGradient) }));
    },
  },
];
