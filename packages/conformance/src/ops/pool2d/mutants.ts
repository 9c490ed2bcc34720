import type { Pool2dProblem } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { mapped, remembering } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { type Pool2dShape, pool2d } from "./formula.js";

type Problem = Pool2dProblem<ReferenceMemory>;

/** Computes all, and passes each result and its place through a function. */
function changed(
  p: Problem,
  change: (x: number, index: number) => number,
  changePlace: (place: number, index: number) => number = (place) => place,
  shape: Pool2dShape = p,
): void {
  const store = storeInto(p.output, p.dtype);
  const storeIndex = p.indices && storeInto(p.indices, "i32");
  const input = load(p.input, p.dtype);
  pool2d(
    shape,
    input,
    (index, x) => store(index, change(x, index)),
    storeIndex && ((index, place) => storeIndex(index, changePlace(place, index))),
  );
}

/** Defects of pool2d. */
export const pool2dMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "exchanges the padding left and below",
    operation: "pool2d",
    defect: "indexing",
    description: "As other libraries have it.",
    killedBy: [
      "pool2d f32: max: takes padding as top, left, bottom, right",
      "pool2d f16: mean: takes padding as top, left, bottom, right",
    ],
    create: () => tampered("pool2d", (p) => ({ ...p, left: p.bottom, bottom: p.left })),
  },
  {
    name: "takes zeros from the padding",
    operation: "pool2d",
    defect: "edge",
    description: "They win where all elements of a window are below.",
    killedBy: [
      "pool2d f32: max: stays within the error bound",
      "pool2d f16: max: takes nothing from the padding",
    ],
    create: () =>
      replaced("pool2d", (p, run) => {
        run(p);
        if (p.kind !== "max" || p.top + p.left === 0) return;
        const store = storeInto(p.output, p.dtype);
        // The first window of each plane.
        for (const [i, x] of load(p.output, p.dtype).entries())
          if (Math.floor(i / p.inner) % (p.outHeight * p.outWidth) === 0) store(i, Math.max(x, 0));
      }),
  },
  {
    name: "divides by the places of the kernel",
    operation: "pool2d",
    defect: "numerics",
    description: "Though some of them are not in the input.",
    killedBy: [
      "pool2d f32: mean: stays within the error bound",
      "pool2d f16: mean: rounds extents up, or down",
    ],
    create: () => tampered("pool2d", (p) => ({ ...p, countPadding: true, bottom: 2 ** 30, right: 2 ** 30 })),
  },
  {
    name: "never counts padding",
    operation: "pool2d",
    defect: "numerics",
    description: "Means of all windows are those of the elements inside.",
    killedBy: ["pool2d f32: mean: is exact on whole numbers"],
    create: () => tampered("pool2d", (p) => ({ ...p, countPadding: false })),
  },
  {
    name: "counts places beyond the padding",
    operation: "pool2d",
    defect: "edge",
    description: "To which windows reach if extents are rounded up.",
    killedBy: ["pool2d f32: mean: rounds extents up, or down"],
    create: () => tampered("pool2d", (p) => (p.countPadding ? { ...p, bottom: 2 ** 30, right: 2 ** 30 } : p)),
  },
  {
    name: "steps by the stride of the other axis",
    operation: "pool2d",
    defect: "stride",
    description: "Rows and columns are exchanged.",
    killedBy: [
      "pool2d f32: max: stays within the error bound",
      "pool2d f16: mean: takes padding as top, left, bottom, right",
    ],
    create: () =>
      replaced("pool2d", (p) =>
        changed(p, (x) => (Number.isNaN(x) ? 0 : x), undefined, {
          ...{ ...p, strideY: p.strideX, strideX: p.strideY },
          ...{ kernelHeight: p.kernelHeight, kernelWidth: p.kernelWidth },
        }),
      ),
  },
  {
    name: "takes channels for columns",
    operation: "pool2d",
    defect: "stride",
    description: "With NHWC the elements of a window are taken for neighbours.",
    killedBy: [
      "pool2d f32: max: gives the same in either layout",
      "pool2d f16: mean: stays within it on larger shapes",
    ],
    create: () =>
      tampered("pool2d", (p) =>
        p.planes * p.inner === p.planes ? p : { ...p, planes: p.planes * p.inner, inner: 1 },
      ),
  },
  {
    name: "takes the last of equal pixels",
    operation: "pool2d",
    defect: "order",
    description: "With >= for >, of the first row of a window.",
    killedBy: ["pool2d f32: max: finds the first place of the maximum"],
    create: () =>
      replaced("pool2d", (p) => {
        const input = load(p.input, p.dtype);
        const at = (index: number, place: number) => {
          const plane = Math.floor(index / (p.outHeight * p.outWidth * p.inner));
          return input[(plane * p.height * p.width + place) * p.inner + (index % p.inner)]!;
        };
        const column = (index: number) => Math.floor(index / p.inner) % p.outWidth;
        changed(
          p,
          (x) => x,
          (place, index) => {
            const end = column(index) * p.strideX + (p.kernelWidth - 1) * p.dilationX - p.left;
            let last = place;
            for (let x = place % p.width; x <= Math.min(end, p.width - 1); x += p.dilationX)
              if (at(index, place - (place % p.width) + x) === at(index, place))
                last = place - (place % p.width) + x;
            return last;
          },
        );
      }),
  },
  {
    name: "counts places within the window",
    operation: "pool2d",
    defect: "indexing",
    description: "Not within the image.",
    killedBy: [
      "pool2d f32: max: finds the first place of the maximum",
      "pool2d f16: max: stays within it on larger shapes",
    ],
    create: () =>
      replaced("pool2d", (p) =>
        changed(
          p,
          (x) => x,
          (place) => place % (p.kernelHeight * p.kernelWidth),
        ),
      ),
  },
  {
    name: "drops the last column of windows",
    operation: "pool2d",
    defect: "edge",
    description: "If they are an odd number, as kernels do that work in pairs.",
    killedBy: ["pool2d f32: touches nothing but the elements of its outputs"],
    create: () =>
      replaced("pool2d", (p, run) => {
        const before = load(p.output, p.dtype);
        run(p);
        if (p.outWidth < 2 || p.outWidth % 2 === 0) return;
        const store = storeInto(p.output, p.dtype);
        for (const [i, x] of before.entries())
          if (Math.floor(i / p.inner) % p.outWidth === p.outWidth - 1) store(i, x);
      }),
  },
  {
    name: "passes over NaN in a window",
    operation: "pool2d",
    defect: "numerics",
    description: "As comparisons with > alone do.",
    killedBy: [
      "numerics f32: pool2d: gives NaN where one element of the window is, and the first one's place",
    ],
    create: () =>
      replaced("pool2d", (p, run) =>
        run({ ...p, input: mapped(p.input, p.dtype, (x) => (Number.isNaN(x) ? -1e9 : x)) }),
      ),
  },
  {
    name: "reads what lies between windows",
    operation: "pool2d",
    defect: "indexing",
    description: "Where the stride is larger than the kernel, and the result may be NaN.",
    killedBy: ["pool2d f32: mean: stays within the error bound"],
    create: () =>
      replaced("pool2d", (p, run) => {
        run(p);
        if (p.strideX <= p.kernelWidth * p.dilationX || p.outWidth < 2) return;
        const next = load(p.input, p.dtype)[p.kernelWidth * p.dilationX * p.inner]!;
        const store = storeInto(p.output, p.dtype);
        for (const [i, x] of load(p.output, p.dtype).entries()) store(i, x + 0 * next);
      }),
  },
  {
    name: "keeps the images of an earlier call",
    operation: "pool2d",
    defect: "lifecycle",
    description: "By their place: a later call finds them, whatever its elements are.",
    killedBy: ["ordering: pool2d: uses its operands as they are at the call"],
    create: () => {
      const recall = remembering();
      return replaced("pool2d", (p, run) => run({ ...p, input: recall(p.input) }));
    },
  },
  {
    name: "writes 64 bits for each place",
    operation: "pool2d",
    defect: "memory",
    description: "As other libraries have them.",
    killedBy: ["pool2d f32: touches nothing but the elements of its outputs"],
    create: () =>
      replaced("pool2d", (p, run) => {
        run(p);
        if (p.indices === undefined) return;
        const { memory, byteOffset, byteLength } = p.indices;
        memory.fill(0, byteOffset + byteLength, byteOffset + byteLength + 4);
      }),
  },
];
