import { type ScatterKind, type ScatterType, scatterKinds, scatterTypes } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, extent, fixedPlacement, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { random } from "../../data.js";
import { encoded } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { bytesOf, check as expect, sameBytes, withAllocations } from "../../kit/checks.js";
import type { Law, LawContext } from "../../law.js";
import { execute, measure, type Placement } from "../../workspace.js";
import { combine, forEachUpdate, type ScatterShape } from "./formula.js";

/** `distinct`: no two alike, as far as there are elements. `mixed`: a third is out of range. `outside`: all. `alike`: all the same. */
type Choice = "distinct" | "mixed" | "outside" | "alike";

interface ScatterCase {
  readonly outer: number;
  readonly length: number;
  readonly count: number;
  readonly inner: number;
  readonly perOuter: boolean;
  readonly perInner: boolean;
  readonly kind: ScatterKind;
  readonly choice: Choice;
  readonly placement: Placement;
  readonly seed: number;
}

/** Elements that one random case may have. */
const work = 2 ** 13;

function cases(places: Arbitrary<Placement> = placement): Arbitrary<ScatterCase> {
  return fc
    .record({
      ...{ outer: extent(5), length: fc.oneof(extent(9), extent()), count: fc.oneof(extent(9), extent()) },
      inner: fc.oneof(extent(9), extent()),
      ...{ perOuter: fc.boolean(), perInner: fc.boolean() },
      kind: fc.constantFrom(...scatterKinds),
      choice: fc.constantFrom<Choice>("distinct", "mixed", "mixed", "alike"),
      ...{ placement: places, seed: dataSeed },
    })
    .filter(({ outer, length, count, inner }) => outer * Math.max(length, count) * inner <= work);
}

const plain: ScatterCase = {
  ...{ outer: 1, length: 1, count: 1, inner: 1, perOuter: false, perInner: false },
  ...{ kind: "add", choice: "mixed", placement: fixedPlacement, seed: 1 },
};

/** Rows around vectors and words; longer than chunks; more indices than 16 bits count; element by element; one for all. */
const largeCases: readonly ScatterCase[] = [
  { ...plain, length: 70_001, count: 500, inner: 3 },
  { ...plain, outer: 3, length: 65, count: 131, inner: 64, perOuter: true },
  { ...plain, outer: 2, length: 30, count: 40, inner: 257, perInner: true },
  { ...plain, length: 3, count: 5, inner: 20_001, kind: "set" },
  { ...plain, length: 1003, count: 100_003, kind: "max" },
  { ...plain, outer: 40, length: 129, count: 1023, perOuter: true, kind: "set" },
  { ...plain, length: 9, count: 700, inner: 36, choice: "alike" },
];

/** Several updates of one element, of which the last one remains where they set it. */
const allToOne = scatterKinds.map(
  (kind): ScatterCase => ({ ...plain, length: 4, count: 9, inner: 3, kind, choice: "alike" }),
);

const stepsOf = (value: ScatterCase): ScatterShape => {
  const { outer, length, count, inner, perOuter, perInner } = value;
  const innerStride = perInner ? 1 : 0;
  const axisStride = perInner ? inner : 1;
  return {
    outer,
    length,
    count,
    inner,
    outerStride: perOuter ? count * axisStride : 0,
    axisStride,
    innerStride,
  };
};

const argumentsFor = ({ outer, length, count, inner, perOuter, perInner, kind }: ScatterCase) => ({
  ...{ kind, shape: [outer, length, inner], axis: 1 },
  indexShape: [perOuter ? outer : 1, count, perInner ? inner : 1],
});

function drawIndices({
  outer,
  length,
  count,
  inner,
  perOuter,
  perInner,
  choice,
  seed,
}: ScatterCase): Float64Array {
  const next = random(seed + 1);
  const outside = [-1, length, -length, length + 1, -(2 ** 31), 2 ** 31 - 1];
  const across = perInner ? inner : 1;
  const one = Math.floor(next() * length);
  // Steps of a number that shares no factor with the length meet every place.
  let step = 1 + Math.floor(length * 0.618);
  const factor = (a: number, b: number): number => (b === 0 ? a : factor(b, a % b));
  while (factor(step, length) !== 1) step++;
  return Float64Array.from({ length: (perOuter ? outer : 1) * count * across }, (_, at) => {
    const j = Math.floor(at / across) % count;
    if (choice === "distinct") return j < length ? (one + j * step) % length : -1;
    if (choice === "alike") return one;
    return choice === "outside" || next() < 0.33
      ? outside[Math.floor(6 * next())]!
      : Math.floor(next() * length);
  });
}

/** Small whole numbers, or for products 1 and 2 or -1, so that every result is exact. */
function drawNumbers(count: number, seed: number, dtype: ScatterType, kind: ScatterKind): Float64Array {
  const next = random(seed);
  const low = dtype === "u32" ? 0 : -1;
  if (kind === "mul")
    return Float64Array.from({ length: count }, () => (next() < 0.5 || dtype === "u32" ? 1 : low));
  const most = dtype === "f16" ? 2 : 1000;
  return Float64Array.from({ length: count }, () => (next() < 0.5 ? low : 1) * Math.floor(next() * most));
}

async function check(context: LawContext, dtype: ScatterType, value: ScatterCase): Promise<void> {
  const { backend } = context;
  const { outer, length, count, inner, kind, choice, seed } = value;
  const indices = drawIndices(value);
  const updates = drawNumbers(outer * count * inner, seed, dtype, kind);
  // Nothing may be read of updates that go nowhere.
  if (choice === "outside") updates.fill(Number.NaN);
  const output = drawNumbers(outer * length * inner, seed + 2, dtype, kind).map((x) => 3 * x);
  const results = new Map<number, number>();
  forEachUpdate(stepsOf(value), (from, at, to) => {
    const place = to(indices[at]!);
    if (place !== undefined)
      results.set(place, combine[kind](results.get(place) ?? output[place]!, updates[from]!));
  });
  const places = [...results.keys()];
  const got = await execute({
    ...{ backend, dtype, placement: value.placement, output: "output", written: places },
    dtypes: { indices: "i32" },
    operands: { updates, indices, output },
    call: (slices) => backend.scatter({ ...argumentsFor(value), ...slices, ...given(dtype) }),
  });
  const wrapped = (x: number) => (dtype === "u32" ? x >>> 0 : x);
  const values = [...results.values()].map(wrapped);
  const expected = { places, values, magnitudes: values.map(() => 0) };
  // f16 may hold a sum of many only rounded.
  const allowed = (x: number) => (dtype === "f16" && Math.abs(x) > 2048 ? Math.abs(x) / 1024 : 0);
  measure(context, [value.perInner ? 1 : inner, updates.length], got, expected, allowed);
}

/** Rows of whole vectors, of words, of neither; single elements. */
const rows = [
  { outer: 3, length: 40, inner: 64 },
  { outer: 2, length: 33, inner: 12 },
  { outer: 3, length: 21, inner: 7 },
  { outer: 5, length: 130, inner: 1 },
] as const;

export const scatterLaws: readonly Law[] = scatterTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: ScatterType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "scatter", name, operation: "scatter", dtype, run },
    exempt: (_capabilities, backend) =>
      backend.supports("scatter", { dtype, kind: "add" })
        ? undefined
        : `scatter in ${dtype} is not supported`,
  });
  /** The bytes of the output after a call on zeros. */
  const scattered = async (
    { backend }: LawContext,
    value: ScatterCase,
    indices: Float64Array,
    updates: Float64Array,
  ) => {
    const [by, from] = [encoded(indices, "i32"), encoded(updates, dtype)];
    const bytes = encoded(new Float64Array(value.outer * value.length * value.inner), dtype);
    let result = bytes;
    await withAllocations(backend, [by.length, from.length, bytes.length], async (list, source, output) => {
      backend.copyHtoD(list, by);
      backend.copyHtoD(source, from);
      backend.copyHtoD(output, bytes);
      backend.scatter({ ...argumentsFor(value), indices: list, updates: source, output, ...given(dtype) });
      result = await bytesOf(backend, output, bytes.length);
    });
    return result;
  };
  return [
    law("combines each update with its element, in order, and leaves the others", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, value), { runs: 2, examples: allToOne }),
    ),
    law("combines them in larger shapes", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value), { quick: 5 }),
    ),
    law("writes nothing for indices out of range, wherever they are", (context) =>
      context.forEach(
        rows.flatMap((extents) =>
          [false, true].map(
            (perInner): ScatterCase => ({
              ...{ ...plain, ...extents, count: 5, perOuter: true, perInner, choice: "outside" },
              placement: { before: [3, 1, 5, 2], shared: true },
            }),
          ),
        ),
        (value) => check(context, dtype, value),
      ),
    ),
    law("gives back what is gathered again, for distinct indices", (context) =>
      context.forEach(rows, async (extents) => {
        if (!context.backend.supports("gather", { dtype })) return;
        const value: ScatterCase = {
          ...plain,
          ...extents,
          count: extents.length,
          kind: "set",
          choice: "distinct",
        };
        const indices = drawIndices(value);
        const updates = drawNumbers(value.outer * value.count * value.inner, 9, dtype, "set");
        const bytes = await scattered(context, value, indices, updates);
        const by = encoded(indices, "i32");
        await withAllocations(
          context.backend,
          [bytes.length, by.length, bytes.length],
          async (from, list, to) => {
            context.backend.copyHtoD(from, bytes);
            context.backend.copyHtoD(list, by);
            const { kind: _, ...rest } = argumentsFor(value);
            context.backend.gather({ ...rest, input: from, indices: list, output: to, ...given(dtype) });
            sameBytes(
              await bytesOf(context.backend, to, bytes.length),
              encoded(updates, dtype),
              "gathered again",
            );
          },
        );
      }),
    ),
    law("adds in the order of the updates, with the same bits every time", (context) =>
      context.forEach(rows, async (extents) => {
        const value: ScatterCase = { ...plain, ...extents, count: 300, choice: "alike" };
        const indices = drawIndices(value);
        const next = random(4);
        const isInteger = dtype === "i32" || dtype === "u32";
        const updates = Float64Array.from({ length: value.outer * value.count * value.inner }, () =>
          isInteger ? Math.floor(next() * 2 ** 20) : next() * 2 ** Math.floor(next() * 9 - 6),
        );
        const first = await scattered(context, value, indices, updates);
        sameBytes(await scattered(context, value, indices, updates), first, "the second time");
        if (dtype !== "f32" || context.numerics.rounding !== "nearest-even") return;
        // One rounding for each sum, in order.
        const got = new Float32Array(first.buffer, 0, value.length * value.inner);
        const at = indices[0]! * value.inner;
        for (let i = 0; i < value.inner; i++) {
          let sum = 0;
          for (let j = 0; j < value.count; j++)
            sum = Math.fround(sum + Math.fround(updates[j * value.inner + i]!));
          expect(got[at + i] === sum, `the sum of column ${i} is ${got[at + i]}, in order it is ${sum}`);
        }
      }),
    ),
    law("touches nothing but the elements that indices name", (context) =>
      context.forAll(cases(oddPlacement), (value) => check(context, dtype, value)),
    ),
  ];
}
