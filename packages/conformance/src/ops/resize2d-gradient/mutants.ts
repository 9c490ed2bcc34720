import type { Resize2dGradientProblem, ResizedAxis } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { remembering } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { type Between, betweenAll } from "../resize2d/formula.js";
import { resizeGradient } from "./formula.js";

type Problem = Resize2dGradientProblem<ReferenceMemory>;

/** Computes all from other places, or passes each result through a function. */
function changed(
  p: Problem,
  change: {
    readonly along?: (one: Between, o: number, all: readonly Between[], size: number) => Between;
    readonly value?: (x: number, index: number) => number;
  },
): void {
  const shape = betweenAll(p);
  const gradient = load(p.outputGradient, p.dtype);
  const store = storeInto(p.inputGradient, p.dtype);
  const along = (all: readonly Between[], size: number) =>
    all.map((one, o) => change.along?.(one, o, all, size) ?? one);
  resizeGradient(
    { ...shape, rows: along(shape.rows, p.height), columns: along(shape.columns, p.width) },
    gradient,
    (index, x) => store(index, change.value?.(x, index) ?? x),
  );
}

/** Defects of resize2dGradient. */
export const resize2dGradientMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "resizes the gradient back",
    operation: "resize2dGradient",
    defect: "numerics",
    description: "To the extents of the input, by the nearest place, which is no adjoint.",
    killedBy: [
      "resize2dGradient f32: nearest: is exact on whole numbers",
      "resize2dGradient f16: nearest: hands on all that it gets",
    ],
    create: () =>
      replaced("resize2dGradient", (p) => {
        const gradient = load(p.outputGradient, p.dtype);
        const store = storeInto(p.inputGradient, p.dtype);
        for (let i = 0; i < p.planes * p.height * p.width * p.inner; i++) {
          const pixel = Math.floor(i / p.inner);
          const row = Math.floor(pixel / p.width);
          const y = Math.floor((((row % p.height) + 0.5) * p.outHeight) / p.height);
          const x = Math.floor((((pixel % p.width) + 0.5) * p.outWidth) / p.width);
          const line = Math.floor(row / p.height) * p.outHeight + y;
          store(i, gradient[(line * p.outWidth + x) * p.inner + (i % p.inner)]!);
        }
      }),
  },
  {
    name: "scales columns of gradients as rows",
    operation: "resize2dGradient",
    defect: "stride",
    description: "With one ratio for both axes, as if images stayed similar.",
    killedBy: ["resize2dGradient f32: bilinear: stays within the error bound"],
    create: () => tampered("resize2dGradient", (p) => ({ ...p, x: p.y })),
  },
  {
    name: "forgets half a pixel of gradients",
    operation: "resize2dGradient",
    defect: "indexing",
    description: "Places are those of `asymmetric`.",
    killedBy: [
      "resize2dGradient f32: bilinear: is the adjoint of resize2d",
      "resize2dGradient f16: bilinear: is exact on whole numbers at whole ratios",
    ],
    create: () =>
      tampered("resize2dGradient", (p) => ({
        ...{ ...p, y: { ...p.y, shift: 0 }, x: { ...p.x, shift: 0 } },
      })),
  },
  {
    name: "loses what lies beyond the edges",
    operation: "resize2dGradient",
    defect: "edge",
    description:
      "Of places that are limited to the last element, the share of the next one, which is not there.",
    killedBy: [
      "resize2dGradient f32: bilinear: hands on all that it gets",
      "resize2dGradient f16: bilinear: is exact on whole numbers at whole ratios",
    ],
    create: () =>
      replaced("resize2dGradient", (p) => {
        const lost =
          (size: number, { factor, shift, divisor }: ResizedAxis) =>
          (o: number) => {
            const numerator = o * factor + shift;
            if (numerator < 0) return 1 + Math.max(-divisor, numerator) / divisor;
            return 1 - Math.min(divisor, Math.max(0, numerator - (size - 1) * divisor)) / divisor;
          };
        const [rows, columns] = [lost(p.height, p.y), lost(p.width, p.x)];
        const gradient = load(p.outputGradient, p.dtype).map((g, i) => {
          const pixel = Math.floor(i / p.inner);
          if (p.kind === "nearest") return g;
          return g * rows(Math.floor(pixel / p.outWidth) % p.outHeight) * columns(pixel % p.outWidth);
        });
        const store = storeInto(p.inputGradient, p.dtype);
        resizeGradient(betweenAll(p), gradient, store);
      }),
  },
  {
    name: "exchanges the two factors of gradients",
    operation: "resize2dGradient",
    defect: "numerics",
    description: "The nearer element gets less.",
    killedBy: ["resize2dGradient f32: bilinear: is exact on whole numbers at whole ratios"],
    create: () =>
      replaced("resize2dGradient", (p) =>
        changed(p, { along: (one) => (one.weight === 0 ? one : { ...one, weight: 1 - one.weight }) }),
      ),
  },
  {
    name: "takes the mean of results for the sum",
    operation: "resize2dGradient",
    defect: "numerics",
    description: "As if the image had been resized back.",
    killedBy: ["resize2dGradient f32: nearest: hands on all that it gets"],
    create: () =>
      replaced("resize2dGradient", (p) => {
        const ratio = (p.height * p.width) / (p.outHeight * p.outWidth);
        changed(p, { value: (x) => x * ratio });
      }),
  },
  {
    name: "takes one result too few",
    operation: "resize2dGradient",
    defect: "edge",
    description: "The last column of results belongs to no element.",
    killedBy: ["resize2dGradient f32: nearest: is exact on whole numbers"],
    create: () =>
      tampered("resize2dGradient", (p) => {
        const gradient = load(p.outputGradient, p.dtype);
        const memory = new Uint8Array(p.outputGradient.byteLength);
        const copy = { memory, byteOffset: 0, byteLength: memory.length };
        const store = storeInto(copy, p.dtype);
        for (const [i, g] of gradient.entries())
          store(i, Math.floor(i / p.inner) % p.outWidth === p.outWidth - 1 && p.outWidth > 1 ? 0 : g);
        return { ...p, outputGradient: copy };
      }),
  },
  {
    name: "leaves elements without results as they were",
    operation: "resize2dGradient",
    defect: "memory",
    description: "Which must be 0, if images become smaller.",
    killedBy: ["resize2dGradient f32: nearest: is exact on whole numbers"],
    create: () =>
      replaced("resize2dGradient", (p) => {
        const before = load(p.inputGradient, p.dtype);
        changed(p, { value: (x, i) => (x === 0 ? before[i]! : x) });
      }),
  },
  {
    name: "takes channels of gradients for columns",
    operation: "resize2dGradient",
    defect: "stride",
    description: "With NHWC each channel is taken for an image of its own.",
    killedBy: ["resize2dGradient f32: bilinear: stays within it on larger shapes"],
    create: () => tampered("resize2dGradient", (p) => ({ ...p, planes: p.planes * p.inner, inner: 1 })),
  },
  {
    name: "keeps the gradients of resized images",
    operation: "resize2dGradient",
    defect: "lifecycle",
    description: "By their place: a later call finds them, whatever they are.",
    killedBy: ["ordering: resize2dGradient: uses its operands as they are at the call"],
    create: () => {
      const recall = remembering();
      return replaced("resize2dGradient", (p, run) =>
        run({ ...p, outputGradient: recall(p.outputGradient) }),
      );
    },
  },
];
