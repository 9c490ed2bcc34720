import { type FloatType, floatTypes, type Resize2dKind, resize2dKinds } from "@backplane/core";
import fc from "fast-check";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { drawIntegers } from "../../data.js";
import { given } from "../../kit/arguments.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { exact } from "../../tolerance.js";
import {
  argumentsFor,
  coordinateModes,
  countOf,
  type Resize2dCase,
  resizeCases,
  resizing,
} from "../resize2d/cases.js";
import { corners, largeShapes, wholeRatios } from "../resize2d/shapes.js";
import { checkGradient, countOfResults, runGradient, wholeGradientsOf } from "./cases.js";

export const resize2dGradientLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

/** All factors of these are fractions with few bits. */
const exactCases = (kind: Resize2dKind): readonly Resize2dCase[] =>
  [...wholeRatios, ...corners].map((plain, seed) =>
    resizing({ ...plain, kind, seed, batch: 1 + (seed % 2) }),
  );

function lawsFor(dtype: FloatType): readonly Law[] {
  const { having, law } = lawsOnKinds("resize2dGradient", dtype, resize2dKinds);
  const ofEach = (name: string, run: (context: LawContext, kind: Resize2dKind) => Promise<void>) =>
    resize2dKinds.map((kind) => law(`${kind}: ${name}`, [kind], (context) => run(context, kind)));
  const onExact = (
    name: string,
    run: (context: LawContext, dtype: FloatType, value: Resize2dCase) => Promise<void>,
  ) =>
    ofEach(name, (context, kind) =>
      context.forEach(exactCases(kind), (value) => run(context, dtype, value), { quick: 8 }),
    );
  return [
    ...ofEach("stays within the error bound", (context, kind) =>
      context.forAll(resizeCases([kind]), (value) => checkGradient(context, dtype, value), { runs: 2 }),
    ),
    ...ofEach("stays within it on larger shapes", (context, kind) =>
      context.forEach(
        largeShapes.map((plain, seed) => resizing({ ...plain, kind, seed })),
        (value) => checkGradient(context, dtype, value),
        { quick: 6 },
      ),
    ),
    ...ofEach("is exact on whole numbers at whole ratios", (context, kind) =>
      context.forEach(exactCases(kind), (value) =>
        checkGradient(context, dtype, value, wholeGradientsOf(value), exact(dtype)),
      ),
    ),
    law("nearest: is exact on whole numbers", ["nearest"], (context) =>
      context.forAll(resizeCases(["nearest"]), (value) => {
        // Nearly all results may be made of one element.
        const limit = Math.max(1, Math.floor(2 ** 11 / (value.to[0] * value.to[1])));
        const gradient = drawIntegers(limit, countOfResults(value), value.seed);
        return checkGradient(context, dtype, value, gradient, exact(dtype));
      }),
    ),
    ...ofEach("of the same extents is a copy", (context, kind) =>
      context.forAll(
        resizeCases([kind]).map((value): Resize2dCase => ({ ...value, to: value.from })),
        (value) => checkGradient(context, dtype, value, undefined, () => 0),
        { runs: 0.5 },
      ),
    ),
    law("touches nothing but the elements of its output", resize2dKinds, (context) =>
      context.forAll(resizeCases(having(context), oddPlacement), (value) =>
        checkGradient(context, dtype, value),
      ),
    ),
    ...onExact("is the adjoint of resize2d", adjoint),
    ...onExact("hands on all that it gets", conserved),
    ...onExact("of several images is that of each", oneByOne),
    law("is zero if there are no results", resize2dKinds, (context) =>
      context.forAll(
        fc.tuple(resizeCases(having(context), oddPlacement), fc.constantFrom(0, 1)).map(
          ([value, axis]): Resize2dCase => ({
            ...value,
            to: axis === 0 ? [0, value.to[1]] : [value.to[0], 0],
          }),
        ),
        (value) => checkGradient(context, dtype, value, new Float64Array(0), () => 0),
        { runs: 0.3 },
      ),
    ),
  ];
}

/** <resize2d(x), g> = <x, resize2dGradient(g)>: all numbers are whole, and so are both sums. */
async function adjoint(context: LawContext, dtype: FloatType, value: Resize2dCase): Promise<void> {
  const { backend } = context;
  if (!backend.supports("resize2d", { dtype, kind: value.kind })) return;
  const x = [...drawIntegers(4, countOf(value), value.seed + 1)].map((element) => 64 * element);
  const gradient = wholeGradientsOf(value);
  const resized = await compute(backend, dtype, [x], gradient.length, ([input], output) =>
    backend.resize2d({ ...argumentsFor(value), input: input!, output, ...given(dtype) }),
  );
  const got = await runGradient(context, dtype, value, gradient);
  const inner = (a: readonly number[], b: Float64Array) => a.reduce((sum, one, i) => sum + one * b[i]!, 0);
  const [left, right] = [inner(resized, gradient), inner(x, got)];
  if (left !== right)
    throw new Error(`<resize2d(x), g> is ${left}, but <x, resize2dGradient(g)> is ${right}`);
}

/** The factors of each result add up to 1. */
async function conserved(context: LawContext, dtype: FloatType, value: Resize2dCase): Promise<void> {
  const gradient = wholeGradientsOf(value);
  const got = await runGradient(context, dtype, value, gradient);
  const sum = (list: Float64Array) => list.reduce((total, x) => total + x, 0);
  if (sum(got) !== sum(gradient))
    throw new Error(`the results sum up to ${sum(got)}, and the gradients to ${sum(gradient)}`);
}

async function oneByOne(context: LawContext, dtype: FloatType, value: Resize2dCase): Promise<void> {
  const gradient = wholeGradientsOf(value);
  const all = await runGradient(context, dtype, value, gradient);
  const part = (list: Float64Array, image: number) => {
    const size = list.length / value.batch;
    return list.slice(image * size, (image + 1) * size);
  };
  const plain = (list: Float64Array) => [...list].map((x) => x + 0);
  for (let image = 0; image < value.batch; image++) {
    const got = await runGradient(context, dtype, { ...value, batch: 1 }, part(gradient, image));
    expectSame(`image ${image}`, plain(got), plain(part(all, image)));
  }
}

/** Laws on infinities, which not every backend keeps. */
export function specialValues(dtype: FloatType): readonly Law[] {
  return [
    numericsLaw(
      dtype,
      "resize2dGradient",
      "gives an infinite gradient to the elements that count alone",
      kept("infinity"),
      async ({ backend }) => {
        for (const kind of resize2dKinds) {
          if (!backend.supports("resize2dGradient", { dtype, kind })) continue;
          for (const coordinates of coordinateModes) {
            const value = resizing({ kind, from: [1, 3], to: [1, 5], coordinates });
            const got = await compute(backend, dtype, [[0, inf, 0, 0, 0]], 3, ([g], inputGradient) =>
              backend.resize2dGradient({
                ...{ ...argumentsFor(value), ...given(dtype) },
                ...{ outputGradient: g!, inputGradient },
              }),
            );
            expectSame(
              `${kind}, ${coordinates}`,
              got.map((x) => x + 0),
              expectedInfinities[kind][coordinates],
            );
          }
        }
      },
    ),
  ];
}

const inf = Number.POSITIVE_INFINITY;

/** Of 5 results of 3 elements, the second is at 3 / 5 + 3 / 10 - 1 / 2, 1 / 2, or 3 / 5. */
const expectedInfinities = {
  nearest: { "half-pixel": [inf, 0, 0], "align-corners": [0, inf, 0], asymmetric: [inf, 0, 0] },
  bilinear: { "half-pixel": [inf, inf, 0], "align-corners": [inf, inf, 0], asymmetric: [inf, inf, 0] },
} as const;
