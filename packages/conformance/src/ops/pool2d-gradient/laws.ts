import { type FloatType, floatTypes, type Pool2dKind, pool2dKinds } from "@backplane/core";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { drawIntegers } from "../../data.js";
import { given } from "../../kit/arguments.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { computeAll, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { exact } from "../../tolerance.js";
import { argumentsFor, isAllowed, type Pool2dCase, poolCases, pooling, shapeOf } from "../pool2d/cases.js";
import type { Pool2dShape } from "../pool2d/formula.js";
import { endings, far, frequent, largeShapes, lopsided, wholeMeans } from "../pool2d/shapes.js";
import {
  checkGradient,
  countOfWindows,
  type Gradients,
  gradientsOf,
  indicesOf,
  runGradient,
  wholeGradientsOf,
} from "./cases.js";

export const pool2dGradientLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const { having, law } = lawsOnKinds("pool2dGradient", dtype, pool2dKinds);
  const ofEach = (name: string, run: (context: LawContext, kind: Pool2dKind) => Promise<void>) =>
    pool2dKinds.map((kind) => law(`${kind}: ${name}`, [kind], (context) => run(context, kind)));
  const wholeCases = (kind: Pool2dKind) => (kind === "max" ? poolCases([kind]) : wholeMeans);
  return [
    ...ofEach("is exact on whole numbers", (context, kind) =>
      context.forAll(wholeCases(kind), (value) =>
        checkGradient(context, dtype, value, wholeGradientsOf(value), exact(dtype)),
      ),
    ),
    ...ofEach("stays within the error bound", (context, kind) =>
      context.forAll(poolCases([kind]), (value) => checkGradient(context, dtype, value), { runs: 2 }),
    ),
    ...ofEach("stays within it on larger shapes", (context, kind) =>
      context.forEach(
        largeShapes.map((plain, seed) => pooling({ ...plain, kind, seed })),
        (value) => checkGradient(context, dtype, value),
        { quick: 6 },
      ),
    ),
    ...ofEach("takes the most frequent windows", (context, kind) =>
      context.forEach(
        frequent.flatMap((plain, seed) =>
          (kind === "mean" ? [true, false] : [false]).map((countPadding) =>
            pooling({ ...plain, kind, seed, countPadding }),
          ),
        ),
        (value) => checkGradient(context, dtype, value),
      ),
    ),
    ...ofEach("takes extents that are rounded up, or down", (context, kind) =>
      context.forEach(
        endings
          .flatMap((plain, seed) =>
            [true, false].flatMap((ceil) =>
              [true, false].map((countPadding) => pooling({ ...plain, kind, seed, ceil, countPadding })),
            ),
          )
          .filter(isAllowed),
        (value) => checkGradient(context, dtype, value),
      ),
    ),
    ...ofEach("takes padding as top, left, bottom, right", (context, kind) =>
      context.forAll(lopsided(kind), (value) => checkGradient(context, dtype, value), {
        examples: far.map((plain) => pooling({ ...plain, kind })),
      }),
    ),
    law("max: takes nothing of windows whose index is none of theirs", ["max"], (context) =>
      context.forAll(poolCases(["max"]), (value) => withStrays(context, dtype, value), {
        examples: frequent.map((plain, seed) => pooling({ ...plain, kind: "max", seed })),
      }),
    ),
    law("touches nothing but the elements of its output", pool2dKinds, (context) =>
      context.forAll(poolCases(having(context), oddPlacement), (value) =>
        checkGradient(context, dtype, value),
      ),
    ),
    ...ofEach("is the adjoint of pool2d", (context, kind) =>
      context.forAll(wholeCases(kind), (value) => adjoint(context, dtype, value), { runs: 0.5 }),
    ),
    ...ofEach("hands on all that it gets", (context, kind) =>
      context.forAll(
        kind === "max" ? poolCases([kind]) : withoutPadding,
        (value) => conserved(context, dtype, value),
        {
          runs: 0.5,
        },
      ),
    ),
    ...ofEach("of several images is that of each", (context, kind) =>
      context.forAll(wholeCases(kind), (value) => oneByOne(context, dtype, value), { runs: 0.5 }),
    ),
  ];
}

/**
 * Replaces indices by numbers that are no elements of their windows: anywhere in the image, outside of it, and at the ends of
 * i32. The gradients there are poison.
 */
function withStrays(context: LawContext, dtype: FloatType, value: Pool2dCase): Promise<void> {
  const shape = shapeOf(value);
  const { height, width } = shape;
  const { gradient, indices } = gradientsOf(value, dtype);
  const others = indicesOf({ ...shape, ...wholeImage(shape) }, value.seed);
  const strays = [-1, height * width, -(2 ** 31), 2 ** 31 - 1, -width, height * width + width];
  const chosen = drawIntegers(4, indices!.length, value.seed + 3);
  const changed = indices!.map((place, i) =>
    chosen[i]! > 1 ? strays[i % strays.length]! : chosen[i]! < -1 ? others[i]! : place,
  );
  const poisoned = gradient.map((x, i) =>
    strays.includes(changed[i]!) || !isOfWindow(shape, i, changed[i]!) ? Number.NaN : x,
  );
  return checkGradient(context, dtype, value, { gradient: poisoned, indices: changed });
}

/** Of which any element may be drawn for each window. */
function wholeImage({ height, width }: Pool2dShape) {
  return {
    ...{ kernelHeight: height, kernelWidth: width, strideY: 0, strideX: 0, dilationY: 1, dilationX: 1 },
    ...{ top: 0, left: 0 },
  };
}

function isOfWindow(shape: Pool2dShape, index: number, place: number): boolean {
  const pixel = Math.floor(index / shape.inner);
  const meets = (offset: number, spread: number, count: number) =>
    offset >= 0 && offset % spread === 0 && offset / spread < count;
  const row = Math.floor(place / shape.width);
  const column = place - row * shape.width;
  const u = Math.floor(pixel / shape.outWidth) % shape.outHeight;
  const v = pixel % shape.outWidth;
  return (
    meets(row + shape.top - u * shape.strideY, shape.dilationY, shape.kernelHeight) &&
    meets(column + shape.left - v * shape.strideX, shape.dilationX, shape.kernelWidth)
  );
}

const types = { indices: "i32" } as const;

function inner(a: Float64Array | readonly number[], b: Float64Array | readonly number[]): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/** <pool2d(x), g> = <x, pool2dGradient(g)>, with the indices that pool2d wrote. */
async function adjoint(context: LawContext, dtype: FloatType, value: Pool2dCase): Promise<void> {
  const { backend } = context;
  const { kind, batch, channels, size, kernel } = value;
  if (!backend.supports("pool2d", { dtype, kind })) return;
  const isMax = kind === "max";
  const elements = batch * channels * size[0] * size[1];
  const windows = countOfWindows(shapeOf(value));
  // Results are whole numbers below 2^11.
  const share = isMax ? 1 : kernel[0] * kernel[1];
  const x = [...drawIntegers(2, elements, value.seed)].map((element) => element * share);
  const g = [...wholeGradientsOf(value).gradient];
  const args = { ...argumentsFor(value), ...given(dtype) };
  let gradient: Promise<Gradients["gradient"]> | undefined;
  const { output } = await computeAll(
    backend,
    dtype,
    { input: x },
    { output: windows },
    ({ input, output }) => {
      const places = isMax ? backend.alloc(4 * windows) : undefined;
      const operands = { input: input!, output: output! };
      backend.pool2d({ ...args, ...operands, ...(places === undefined ? {} : { indices: places }) });
      if (places === undefined) return;
      const read = new Int32Array(windows);
      gradient = backend.copyDtoH(read, places).then(() => {
        backend.free(places);
        return Float64Array.from(read);
      });
    },
  );
  const got = await runGradient(context, dtype, value, {
    gradient: Float64Array.from(g),
    indices: await gradient,
  });
  const [left, right] = [inner(output!, g), inner(x, got)];
  if (left !== right) throw new Error(`<pool2d(x), g> is ${left}, but <x, pool2dGradient(g)> is ${right}`);
}

/** Means whose windows have as many elements: those that count padding give it a share. */
const withoutPadding = wholeMeans
  .map((value): Pool2dCase => ({ ...value, padding: [0, 0, 0, 0] }))
  .filter(isAllowed);

/** Each window has its gradient in the sum of all results once. */
async function conserved(context: LawContext, dtype: FloatType, value: Pool2dCase): Promise<void> {
  const gradients = wholeGradientsOf(value);
  const got = await runGradient(context, dtype, value, gradients);
  const sum = (list: Float64Array) => list.reduce((total, x) => total + x, 0);
  const [all, given] = [sum(got), sum(gradients.gradient)];
  if (all !== given) throw new Error(`the results sum up to ${all}, and the gradients to ${given}`);
}

async function oneByOne(context: LawContext, dtype: FloatType, value: Pool2dCase): Promise<void> {
  const gradients = wholeGradientsOf(value);
  const all = await runGradient(context, dtype, value, gradients);
  const [windows, elements] = [gradients.gradient.length / value.batch, all.length / value.batch];
  for (let image = 0; image < value.batch; image++) {
    const part = (list: Float64Array, size: number) => list.slice(image * size, (image + 1) * size);
    const { gradient, indices } = gradients;
    const got = await runGradient(
      context,
      dtype,
      { ...value, batch: 1 },
      { gradient: part(gradient, windows), indices: indices && part(indices, windows) },
    );
    const plain = (list: Float64Array) => [...list].map((x) => x + 0);
    expectSame(`image ${image}`, plain(got), plain(part(all, elements)));
  }
}

/** Laws on infinities, which not every backend keeps. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const infinity = Number.POSITIVE_INFINITY;
  return [
    numericsLaw(
      dtype,
      "pool2dGradient",
      "gives an infinite gradient to the elements of its window alone",
      kept("infinity"),
      async ({ backend }) => {
        for (const layout of ["NCHW", "NHWC"] as const)
          for (const kind of pool2dKinds) {
            if (!backend.supports("pool2dGradient", { dtype, kind })) continue;
            const value = pooling({ kind, layout, size: [3, 8], kernel: [3, 2], stride: [1, 2] });
            const { inputGradient } = await computeAll(
              backend,
              dtype,
              {
                outputGradient: [1, infinity, 2, -infinity],
                ...(kind === "max" ? { indices: [1, 10, 4, 22] } : {}),
              },
              { inputGradient: 24 },
              (operands) =>
                backend.pool2dGradient({
                  ...{ ...argumentsFor(value), ...given(dtype) },
                  ...(operands as { outputGradient: never; inputGradient: never }),
                }),
              dtype,
              types,
            );
            const expected = Array.from({ length: 24 }, (_, i) => {
              if (kind === "max")
                return (
                  new Map([
                    [1, 1],
                    [10, infinity],
                    [4, 2],
                    [22, -infinity],
                  ]).get(i) ?? 0
                );
              return [1 / 6, infinity, 1 / 3, -infinity][(i % 8) >> 1]!;
            });
            const isSame = (got: number, wanted: number) =>
              Number.isFinite(wanted) ? Math.abs(got - wanted) < 2 ** -10 : got === wanted;
            const wrong = expected.findIndex((wanted, i) => !isSame(inputGradient![i]!, wanted));
            if (wrong >= 0)
              throw new Error(`${kind}: result ${wrong} is ${inputGradient![wrong]}, not ${expected[wrong]}`);
          }
      },
    ),
  ];
}
