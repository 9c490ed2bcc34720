import { type FloatType, floatTypes, type Pool2dKind, pool2dKinds } from "@backplane/core";
import { fixedPlacement, oddPlacement } from "../../arbitraries/shapes.js";
import { given } from "../../kit/arguments.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import {
  checkPool,
  elementsOf,
  exactly,
  isAllowed,
  type Pool2dCase,
  poolCases,
  pooling,
  runPool,
} from "./cases.js";
import { endings, far, frequent, largeShapes, lopsided, wholeMeans } from "./shapes.js";

export const pool2dLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const { having, law } = lawsOnKinds("pool2d", dtype, pool2dKinds);
  const ofEach = (name: string, run: (context: LawContext, kind: Pool2dKind) => Promise<void>) =>
    pool2dKinds.map((kind) => law(`${kind}: ${name}`, [kind], (context) => run(context, kind)));
  return [
    ...ofEach("is exact on whole numbers", (context, kind) =>
      context.forAll(kind === "max" ? poolCases([kind]) : wholeMeans, (value) =>
        exactly(context, dtype, value),
      ),
    ),
    ...ofEach("stays within the error bound", (context, kind) =>
      context.forAll(poolCases([kind]), (value) => checkPool(context, dtype, value), { runs: 2 }),
    ),
    ...ofEach("stays within it on larger shapes", (context, kind) =>
      context.forEach(
        largeShapes.map((plain, seed) => pooling({ ...plain, kind, seed })),
        (value) => checkPool(context, dtype, value),
        { quick: 6 },
      ),
    ),
    ...ofEach("takes the most frequent windows", (context, kind) =>
      context.forEach(
        frequent.flatMap((plain, seed) =>
          [true, false].map((countPadding) => pooling({ ...plain, kind, seed, countPadding })),
        ),
        (value) => checkPool(context, dtype, value),
      ),
    ),
    ...ofEach("rounds extents up, or down", (context, kind) =>
      context.forEach(
        endings
          .flatMap((plain, seed) =>
            [true, false].flatMap((ceil) =>
              [true, false].map((more) =>
                pooling({ ...plain, kind, seed, ceil, countPadding: more, indices: more }),
              ),
            ),
          )
          .filter(isAllowed),
        (value) => checkPool(context, dtype, value),
      ),
    ),
    ...ofEach("takes padding as top, left, bottom, right", (context, kind) =>
      context.forAll(lopsided(kind), (value) => checkPool(context, dtype, value), {
        examples: far.map((plain) => pooling({ ...plain, kind })),
      }),
    ),
    law("max: takes nothing from the padding", ["max"], (context) =>
      windows(context, dtype, "max", belowZero, () => undefined),
    ),
    law("max: finds the first place of the maximum", ["max"], (context) =>
      context.forAll(
        poolCases(["max"]).map((value): Pool2dCase => ({ ...value, indices: true, data: "ties" })),
        (value) => checkPool(context, dtype, value),
      ),
    ),
    law("touches nothing but the elements of its outputs", pool2dKinds, (context) =>
      context.forAll(poolCases(having(context), oddPlacement), (value) => checkPool(context, dtype, value)),
    ),
    ...ofEach("of a window over all of the image is what reduce gives", (context, kind) =>
      whole(context, dtype, kind),
    ),
    ...ofEach("gives the same in either layout", (context, kind) =>
      context.forAll(poolCases([kind]), (value) => transposed(context, dtype, value)),
    ),
  ];
}

/** Of several images: one window each. */
async function whole({ backend }: LawContext, dtype: FloatType, kind: Pool2dKind): Promise<void> {
  if (!backend.supports("reduce", { dtype, kind })) return;
  const [images, height, width] = [3, 8, 16];
  // Whole numbers whose sums are exact; 128 is a power of two.
  const input = Array.from({ length: images * height * width }, (_, i) => ((i * 37) % 23) - 11);
  const pooled = await compute(backend, dtype, [input], images, ([x], output) =>
    backend.pool2d({
      ...{ kind, inputShape: [1, images, height, width], kernel: [height, width] },
      ...{ input: x!, output, ...given(dtype) },
    }),
  );
  const reduced = await compute(backend, dtype, [input], images, ([x], output) =>
    backend.reduce({
      ...{ kind, shape: [images, height * width], axes: [1] },
      ...{ input: x!, output, ...given(dtype) },
    }),
  );
  expectSame(`${kind} of whole images`, pooled, reduced);
}

/** The images of a case in the other layout have other places and the same windows. */
async function transposed(context: LawContext, dtype: FloatType, value: Pool2dCase): Promise<void> {
  const { batch, channels, size } = value;
  const input = elementsOf(value, dtype);
  const pixels = size[0] * size[1];
  const other: Pool2dCase = { ...value, layout: value.layout === "NCHW" ? "NHWC" : "NCHW" };
  const [from, to] = [placeIn(value, pixels), placeIn(other, pixels)];
  const moved = new Float64Array(input.length);
  for (let image = 0; image < batch; image++)
    for (let channel = 0; channel < channels; channel++)
      for (let pixel = 0; pixel < pixels; pixel++)
        moved[to(image, channel, pixel)] = input[from(image, channel, pixel)]!;
  await checkPool(context, dtype, other, moved);
  if (value.kind === "mean") return;
  const [one, two] = [
    await runPool(context, dtype, value, input),
    await runPool(context, dtype, other, moved),
  ];
  const outputs = one.output.length / batch / channels;
  const [here, there] = [placeIn(value, outputs), placeIn(other, outputs)];
  for (const operand of ["output", "indices"] as const) {
    const [a, b] = [one[operand], two[operand]];
    if (a === undefined || b === undefined) continue;
    const expected: number[] = [];
    for (let image = 0; image < batch; image++)
      for (let channel = 0; channel < channels; channel++)
        for (let pixel = 0; pixel < outputs; pixel++)
          expected[here(image, channel, pixel)] = b[there(image, channel, pixel)]! + 0;
    expectSame(
      operand,
      [...a].map((x) => x + 0),
      expected,
    );
  }
}

function placeIn({ layout, channels }: Pool2dCase, pixels: number) {
  return (image: number, channel: number, pixel: number): number =>
    layout === "NCHW"
      ? (image * channels + channel) * pixels + pixel
      : (image * pixels + pixel) * channels + channel;
}

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Runs 3x3 windows with padding, in either layout, on one image. */
async function windows(
  context: LawContext,
  dtype: FloatType,
  kind: Pool2dKind,
  input: Float64Array,
  check: (output: readonly number[], indices: readonly number[]) => void,
): Promise<void> {
  if (!context.backend.supports("pool2d", { dtype, kind })) return;
  for (const layout of ["NCHW", "NHWC"] as const)
    for (const indices of [true, false])
      for (const stride of [1, 2]) {
        const value = pooling({
          ...{ kind, layout, size: [8, 16], kernel: [3, 3], stride: [stride, stride], padding: [1, 1, 1, 1] },
          ...{ indices, placement: fixedPlacement },
        });
        const { output, indices: found, expected, places } = await runPool(context, dtype, value, input);
        expectSame(
          `${kind} in ${layout}`,
          [...output].map((x) => x + 0),
          expected.values.map((x) => x + 0),
        );
        if (found !== undefined) expectSame(`places in ${layout}`, [...found], places.values);
        check(expected.values, places.values);
      }
}

/** Of one image. */
const belowZero = Float64Array.from({ length: 128 }, (_, i) => -1 - ((i * 37) % 129));

/** Laws on NaN and infinities, which not every backend keeps. */
export function specialValues(dtype: FloatType): readonly Law[] {
  const plain = Float64Array.from({ length: 128 }, (_, i) => (i % 7) - 3);
  const special = (name: string, promise: Parameters<typeof numericsLaw>[3], run: Law["run"]) =>
    numericsLaw(dtype, "pool2d", name, promise, run);
  return [
    special(
      "gives NaN where one element of the window is, and the first one's place",
      kept("nan"),
      async (context) => {
        for (const at of [[0], [127], [40], [13, 24, 25], [10, 11, 12], [...plain.keys()]])
          await windows(
            context,
            dtype,
            "max",
            plain.map((x, i) => (at.includes(i) ? nan : x)),
            (values) => {
              if (!values.some(Number.isNaN)) throw new Error("the case has no NaN");
            },
          );
      },
    ),
    special("takes infinities, before which padding does not come", kept("infinity"), async (context) => {
      const none = () => undefined;
      await windows(
        context,
        dtype,
        "max",
        plain.map(() => -infinity),
        none,
      );
      await windows(
        context,
        dtype,
        "max",
        plain.map((x, i) => (i % 5 === 0 ? infinity : x)),
        none,
      );
      await windows(
        context,
        dtype,
        "mean",
        plain.map(() => infinity),
        none,
      );
    }),
  ];
}
