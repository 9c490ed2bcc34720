import {
  dtypeBytes,
  type FloatType,
  floatTypes,
  type Resize2dKind,
  type Resize2dType,
  resize2dKinds,
  resize2dTypes,
} from "@backplane/core";
import type { Arbitrary } from "fast-check";
import { oddPlacement, placement } from "../../arbitraries/shapes.js";
import { drawIntegers, random } from "../../data.js";
import { given } from "../../kit/arguments.js";
import { bytesOf } from "../../kit/checks.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { product } from "../../kit/shapes.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { exact } from "../../tolerance.js";
import type { Placement } from "../../workspace.js";
import {
  argumentsFor,
  checkResize,
  coordinateModes,
  countOf,
  type Resize2dCase,
  resizeCases,
  resizing,
} from "./cases.js";
import { corners, largeShapes, wholeRatios } from "./shapes.js";

export const resize2dLaws: readonly Law[] = [
  ...floatTypes.flatMap((dtype) => lawsFor(dtype)),
  ...resize2dTypes.filter((dtype) => !isFloat(dtype)).flatMap((dtype) => copyLaws(dtype)),
];

function isFloat(dtype: Resize2dType): dtype is FloatType {
  return floatTypes.some((type) => type === dtype);
}

function lawsFor(dtype: FloatType): readonly Law[] {
  const { having, law } = lawsOnKinds("resize2d", dtype, resize2dKinds);
  const ofEach = (name: string, run: (context: LawContext, kind: Resize2dKind) => Promise<void>) =>
    resize2dKinds.map((kind) => law(`${kind}: ${name}`, [kind], (context) => run(context, kind)));
  return [
    ...copyLaws(dtype),
    law("bilinear: stays within the error bound", ["bilinear"], (context) =>
      context.forAll(resizeCases(["bilinear"]), (value) => checkResize(context, dtype, value), { runs: 2 }),
    ),
    ...ofEach("stays within it on larger shapes", (context, kind) =>
      context.forEach(
        largeShapes.map((plain, seed) => resizing({ ...plain, kind, seed })),
        (value) => checkResize(context, dtype, value),
        { quick: 6 },
      ),
    ),
    ...ofEach("is exact on whole numbers at whole ratios", (context, kind) =>
      context.forEach(
        [...wholeRatios, ...corners].map((plain, seed) => resizing({ ...plain, kind, seed })),
        (value) =>
          checkResize(
            context,
            dtype,
            value,
            drawIntegers(16, countOf(value), value.seed),
            kind === "nearest" ? () => 0 : exact(dtype),
          ),
      ),
    ),
    ...ofEach("to the same extents is a copy", (context, kind) =>
      context.forAll(
        resizeCases([kind]).map((value): Resize2dCase => ({ ...value, to: value.from })),
        (value) => checkResize(context, dtype, value, undefined, () => 0),
        { runs: 0.5 },
      ),
    ),
    law("touches nothing but the elements of its output", resize2dKinds, (context) =>
      context.forAll(resizeCases(having(context), oddPlacement), (value) =>
        checkResize(context, dtype, value),
      ),
    ),
    law("nearest: enlarged twice is enlarged once", ["nearest"], (context) => twice(context, dtype)),
  ];
}

/** On `nearest` in any type. */
function copyLaws(dtype: Resize2dType): readonly Law[] {
  const { law } = lawsOnKinds("resize2d", dtype, ["nearest"]);
  const ofPlaces = (places: Arbitrary<Placement>) => (context: LawContext) =>
    context.forAll(resizeCases(["nearest"], places), (value) => checkResize(context, dtype, value));
  return [
    law("nearest: takes the element that is nearest", ["nearest"], ofPlaces(placement)),
    ...(isFloat(dtype)
      ? []
      : [
          law("nearest: touches nothing but the elements of its output", ["nearest"], ofPlaces(oddPlacement)),
          law("nearest: takes it on larger shapes", ["nearest"], (context) =>
            context.forEach(
              largeShapes.map((plain, seed) => resizing({ ...plain, kind: "nearest", seed })),
              (value) => checkResize(context, dtype, value),
              { quick: 4 },
            ),
          ),
        ]),
    law("nearest: keeps all bits", ["nearest"], (context) => allBits(context, dtype)),
  ];
}

/** Enlarges random bytes, which are numbers of all kinds, and looks at the bytes of each element. */
async function allBits({ backend }: LawContext, dtype: Resize2dType): Promise<void> {
  const bytes = dtypeBytes[dtype];
  for (const [layout, channels] of [
    ["NCHW", 3],
    ["NHWC", 1],
    ["NHWC", 5],
    ["NHWC", 8],
  ] as const) {
    const value = resizing({ kind: "nearest", layout, channels, from: [5, 8], to: [10, 16] });
    const next = random(channels);
    const data = Uint8Array.from({ length: countOf(value) * bytes }, () => Math.floor(256 * next()));
    const count = 4 * data.length;
    const [input, output] = [backend.alloc(data.length), backend.alloc(count)];
    try {
      backend.copyHtoD(input, data);
      backend.resize2d({ ...argumentsFor(value), input, output, ...given(dtype) });
      const got = await bytesOf(backend, output, count);
      const inner = layout === "NCHW" ? 1 : channels;
      const expected = Array.from({ length: count }, (_, i) => {
        const element = Math.floor(i / bytes);
        const [c, pixel] = [element % inner, Math.floor(element / inner)];
        const [x, y, plane] = [pixel % 16, Math.floor(pixel / 16) % 10, Math.floor(pixel / 160)];
        return data[(((plane * 5 + (y >> 1)) * 8 + (x >> 1)) * inner + c) * bytes + (i % bytes)]!;
      });
      expectSame(`bytes of ${channels} channels in ${layout}`, [...got], expected);
    } finally {
      backend.free(input);
      backend.free(output);
    }
  }
}

/** By 2 and 3, and by 6. */
async function twice({ backend }: LawContext, dtype: FloatType): Promise<void> {
  for (const coordinates of ["half-pixel", "asymmetric"] as const) {
    const enlarge = (input: readonly number[], from: readonly [number, number], ratio: number) => {
      const to = [from[0] * ratio, from[1] * ratio] as const;
      const value = resizing({ kind: "nearest", channels: 2, from, to, coordinates });
      return compute(backend, dtype, [input], 2 * product(to), ([x], output) =>
        backend.resize2d({ ...argumentsFor(value), input: x!, output, ...given(dtype) }),
      );
    };
    const input = Array.from({ length: 2 * 35 }, (_, i) => i);
    const steps = await enlarge(await enlarge(input, [5, 7], 2), [10, 14], 3);
    expectSame(`${coordinates} by 2 and 3`, steps, await enlarge(input, [5, 7], 6));
  }
}

/** Laws on infinities, which not every backend keeps. */
export function specialValues(dtype: FloatType): readonly Law[] {
  return [
    numericsLaw(
      dtype,
      "resize2d",
      "takes infinities where they count",
      kept("infinity"),
      async ({ backend }) => {
        for (const kind of resize2dKinds) {
          if (!backend.supports("resize2d", { dtype, kind })) continue;
          for (const coordinates of coordinateModes) {
            const value = resizing({ kind, from: [1, 3], to: [1, 5], coordinates });
            const infinity = Number.POSITIVE_INFINITY;
            const got = await compute(backend, dtype, [[1, infinity, 3]], 5, ([x], output) =>
              backend.resize2d({ ...argumentsFor(value), input: x!, output, ...given(dtype) }),
            );
            expectSame(`${kind}, ${coordinates}`, got, expectedInfinities[kind][coordinates]);
          }
        }
      },
    ),
  ];
}

const inf = Number.POSITIVE_INFINITY;

/** 3 elements, of which the second is infinite, at 5 places: i * 3 / 5 + 3 / 10 - 1 / 2, i / 2, or i * 3 / 5. */
const expectedInfinities = {
  nearest: {
    "half-pixel": [1, 1, inf, 3, 3],
    "align-corners": [1, inf, inf, 3, 3],
    asymmetric: [1, 1, inf, inf, 3],
  },
  bilinear: {
    "half-pixel": [1, inf, inf, inf, 3],
    "align-corners": [1, inf, inf, inf, 3],
    asymmetric: [1, inf, inf, inf, 3],
  },
} as const;
