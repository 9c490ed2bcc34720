import type { Resize2dProblem, ResizedAxis } from "@backplane/core";
import { load, type ReferenceMemory, storeInto } from "../../elements.js";
import { remembering } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";
import { type Between, between, resize2d } from "./formula.js";

type Problem = Resize2dProblem<ReferenceMemory>;

/** Computes all from other places, or passes each result through a function. */
function changed(
  p: Problem,
  change: {
    readonly along?: (one: Between, size: number, axis: ResizedAxis, o: number) => Between;
    readonly value?: (x: number) => number;
  },
): void {
  const all = (count: number, size: number, axis: ResizedAxis) =>
    Array.from({ length: count }, (_, o) => {
      const { factor, shift, divisor } = axis;
      const one = between(o * factor + shift, divisor, size, p.kind === "nearest");
      return change.along?.(one, size, axis, o) ?? one;
    });
  const input = load(p.input, p.dtype);
  const store = storeInto(p.output, p.dtype);
  const shape = { ...p, rows: all(p.outHeight, p.height, p.y), columns: all(p.outWidth, p.width, p.x) };
  resize2d(shape, input, (index, x) => store(index, change.value?.(x) ?? x));
}

/** Defects of resize2d. */
export const resize2dMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => [
  {
    name: "scales columns as rows",
    operation: "resize2d",
    defect: "stride",
    description: "With one ratio for both axes, as if images stayed similar.",
    killedBy: [
      "resize2d f32: nearest: takes the element that is nearest",
      "resize2d f16: bilinear: stays within the error bound",
    ],
    create: () => tampered("resize2d", (p) => ({ ...p, x: p.y })),
  },
  {
    name: "takes corners for middles",
    operation: "resize2d",
    defect: "indexing",
    description: "Half a pixel is forgotten: places are those of `asymmetric`.",
    killedBy: [
      "resize2d f32: bilinear: stays within the error bound",
      "resize2d f16: bilinear: is exact on whole numbers at whole ratios",
    ],
    create: () => tampered("resize2d", (p) => ({ ...p, y: { ...p.y, shift: 0 }, x: { ...p.x, shift: 0 } })),
  },
  {
    name: "computes places in f32",
    operation: "resize2d",
    defect: "numerics",
    description: "As a product with a rounded ratio, which falls short of whole numbers.",
    killedBy: [
      "resize2d f32: nearest: stays within it on larger shapes",
      "resize2d f16: nearest: stays within it on larger shapes",
    ],
    create: () =>
      replaced("resize2d", (p) =>
        changed(p, {
          along(one, size, { factor, shift, divisor }, o) {
            if (p.kind !== "nearest") return one;
            const place = Math.fround(
              Math.fround(o * Math.fround(factor / divisor)) + Math.fround(shift / divisor),
            );
            return between(Math.floor(place), 1, size, true);
          },
        }),
      ),
  },
  {
    name: "reads the row behind the last",
    operation: "resize2d",
    defect: "edge",
    description: "For places beyond the last element, which must be limited to it.",
    killedBy: ["resize2d f32: bilinear: stays within the error bound"],
    create: () =>
      replaced("resize2d", (p) =>
        changed(p, {
          along: (one, size, { factor, shift, divisor }, o) =>
            o * factor + shift > (size - 1) * divisor && size > 1
              ? { lower: size - 1, upper: 0, weight: ((o * factor + shift) / divisor) % 1 }
              : one,
        }),
      ),
  },
  {
    name: "exchanges the two factors",
    operation: "resize2d",
    defect: "numerics",
    description: "The nearer element counts less.",
    killedBy: [
      "resize2d f32: bilinear: is exact on whole numbers at whole ratios",
      "resize2d f16: bilinear: stays within the error bound",
    ],
    create: () =>
      replaced("resize2d", (p) =>
        changed(p, {
          along: (one) => (one.weight === 0 ? one : { ...one, weight: 1 - one.weight }),
        }),
      ),
  },
  {
    name: "multiplies by zero",
    operation: "resize2d",
    defect: "edge",
    description: "Where a place is an element, the next one counts too: what is NaN there spreads.",
    killedBy: ["resize2d f32: bilinear: stays within the error bound"],
    create: () =>
      replaced("resize2d", (p) =>
        changed(p, {
          along: (one, size) =>
            one.weight === 0 && p.kind === "bilinear" && one.lower + 1 < size
              ? { ...one, upper: one.lower + 1, weight: Number.MIN_VALUE }
              : one,
        }),
      ),
  },
  {
    name: "takes channels for columns in a resize",
    operation: "resize2d",
    defect: "stride",
    description: "With NHWC each channel is taken for an image of its own.",
    killedBy: [
      "resize2d f32: nearest: keeps all bits",
      "resize2d f16: bilinear: stays within it on larger shapes",
    ],
    create: () => tampered("resize2d", (p) => ({ ...p, planes: p.planes * p.inner, inner: 1 })),
  },
  {
    name: "rounds the middle down",
    operation: "resize2d",
    defect: "edge",
    description: "Of two elements as near as one another, `nearest` takes the first.",
    killedBy: ["resize2d f32: nearest: is exact on whole numbers at whole ratios"],
    create: () =>
      tampered("resize2d", (p) => {
        const down = (axis: ResizedAxis) => (axis.shift > 0 ? { ...axis, shift: axis.shift - 0.5 } : axis);
        return p.kind === "nearest" ? { ...p, y: down(p.y), x: down(p.x) } : p;
      }),
  },
  {
    name: "copies through numbers",
    operation: "resize2d",
    defect: "numerics",
    description: "NaN with other bits becomes the usual one.",
    killedBy: ["resize2d f32: nearest: keeps all bits", "resize2d f16: nearest: keeps all bits"],
    create: () =>
      replaced("resize2d", (p) => changed(p, { value: (x) => (Number.isNaN(x) ? Number.NaN : x) })),
  },
  {
    name: "keeps resized images",
    operation: "resize2d",
    defect: "lifecycle",
    description: "By their place: a later call finds them, whatever its elements are.",
    killedBy: ["ordering: resize2d: uses its operands as they are at the call"],
    create: () => {
      const recall = remembering();
      return replaced("resize2d", (p, run) => run({ ...p, input: recall(p.input) }));
    },
  },
];
