import { elementTypes, type FloatType, floatTypes, type IntegerType, integerTypes } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, fixedPlacement, oddPlacement, placement, shapesUpTo } from "../../arbitraries/shapes.js";
import { drawOfAllSizes, extremesOf, random } from "../../data.js";
import { encoded } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { bytesOf, check as expect, withAllocations } from "../../kit/checks.js";
import { around, product } from "../../kit/shapes.js";
import { expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { collect, executeAll, measure, type Placement } from "../../workspace.js";
import { sort } from "./formula.js";

type ElementType = FloatType | IntegerType;

/** `many`: of all sizes. `few`: of a few numbers, so that most are equal to others. `sorted`: in order already. */
type Data = "many" | "few" | "sorted" | "backwards";

interface SortCase {
  readonly shape: readonly number[];
  /** Null: not given, which means the last. */
  readonly axis: number | null;
  readonly descending: boolean | null;
  /** The share of the axis that is kept. Null: not given. */
  readonly share: number | null;
  readonly outputs: "values" | "indices" | "both";
  readonly data: Data;
  readonly placement: Placement;
  readonly seed: number;
}

/** Lines that kernels hold at once, and longer ones. */
const largeShapes: readonly Pick<SortCase, "shape" | "axis">[] = [
  { shape: [2, 20_000], axis: -1 },
  { shape: [3, 700, 20], axis: 1 },
  { shape: [70_001], axis: null },
  { shape: [5, 1024], axis: null },
  { shape: [3, 1025], axis: 1 },
  { shape: [2, 4097], axis: 1 },
  { shape: [5000, 3], axis: 0 },
  { shape: [2500, 7], axis: 1 },
];

function cases(places: Arbitrary<Placement>): Arbitrary<SortCase> {
  return shapesUpTo(2 ** 12).chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      axis: fc.oneof(fc.integer({ min: -shape.length, max: shape.length - 1 }), fc.constant(null)),
      descending: fc.constantFrom(true, false, null),
      share: fc.constantFrom(null, null, 0.01, 0.5, 1),
      outputs: fc.constantFrom("values" as const, "indices" as const, "both" as const),
      data: fc.constantFrom<Data[]>("many", "few", "sorted", "backwards"),
      placement: places,
      seed: dataSeed,
    }),
  );
}

function extentsOf({ shape, axis, share }: SortCase) {
  const extents = around({ shape, axis });
  const { length } = extents;
  return { ...extents, count: share === null ? length : Math.max(1, Math.floor(share * length)) };
}

function elements(value: SortCase, dtype: ElementType): Float64Array {
  const { shape, data, seed } = value;
  const count = product(shape);
  const next = random(seed);
  const few = extremesOf(dtype);
  if (data === "few") return new Float64Array(count).map(() => few[Math.floor(next() * few.length)]!);
  if (data !== "many") {
    const { length, inner } = extentsOf(value);
    const place = (at: number) => Math.floor(at / inner) % length;
    return new Float64Array(count).map((_, at) => {
      const step = Math.floor(place(at) / 3) % 2048;
      return data === "sorted" ? step : 2048 - step;
    });
  }
  return drawOfAllSizes(dtype, count, seed);
}

async function check(context: LawContext, dtype: ElementType, value: SortCase): Promise<void> {
  const { shape, axis, share, outputs, placement } = value;
  const input = elements(value, dtype);
  const extents = extentsOf(value);
  const problem = { ...extents, descending: value.descending ?? false };
  const expected = {
    values: collect((emit) => sort(problem, input, emit, undefined)),
    indices: collect((emit) => sort(problem, input, undefined, emit)),
  };
  const names = outputs === "both" ? (["values", "indices"] as const) : ([outputs] as const);
  const room = () => new Float64Array(expected.values.places.length).fill(Number.NaN);
  const got = await executeAll<string>({
    ...{ backend: context.backend, dtype, placement, dtypes: { indices: "i32" } },
    operands: { input, ...Object.fromEntries(names.map((name) => [name, room()])) },
    written: Object.fromEntries(names.map((name) => [name, expected[name].places])),
    call: (slices) =>
      context.backend.sort({
        ...{ ...(slices as { input: never }), shape },
        ...(axis === null ? {} : { axis }),
        ...(value.descending === null ? {} : { descending: value.descending }),
        ...(share === null ? {} : { count: extents.count }),
        ...given(dtype),
      }),
  });
  const { outer, length, inner } = extents;
  for (const name of names) measure(context, [length, outer * inner], got[name]!, expected[name], () => 0);
}

const larger: readonly SortCase[] = largeShapes.map((plain, seed) => ({
  ...{ ...plain, seed, placement: fixedPlacement, outputs: "both" },
  descending: seed % 2 === 1,
  share: [null, 0.002, 0.3][seed % 3]!,
  data: (["few", "many"] as const)[seed % 2]!,
}));

export const sortLaws: readonly Law[] = [...floatTypes, ...integerTypes].flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: ElementType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "sort", name, operation: "sort", dtype, run },
    exempt: (_capabilities, backend) =>
      backend.supports("sort", { dtype }) ? undefined : `sort of ${dtype} is not supported`,
  });
  return [
    law("puts elements in order, and keeps that of equal ones", (context) =>
      context.forAll(cases(placement), (value) => check(context, dtype, value)),
    ),
    law("puts them in order on larger shapes", (context) =>
      context.forEach(larger, (value) => check(context, dtype, value), { quick: 4 }),
    ),
    law("sorts what is sorted into itself", (context) => expectSettled(context, dtype)),
    law("touches nothing but the elements of its outputs", (context) =>
      context.forAll(cases(oddPlacement), (value) => check(context, dtype, value)),
    ),
  ];
}

/** Of sorted values each is at its own place, and the first few are those of the whole. */
async function expectSettled({ backend }: LawContext, dtype: ElementType): Promise<void> {
  const [rows, length, count] = [3, 1500, 40];
  const value = { shape: [rows, length], axis: 1, descending: null, share: null, outputs: "both" } as const;
  const data = { data: "few", placement: fixedPlacement, seed: 3 } as const;
  const content = encoded(elements({ ...value, ...data }, dtype), dtype);
  const size = elementTypes[dtype].bytes;
  await withAllocations(
    backend,
    [content.length, content.length, 4 * rows * length, rows * count * size],
    async (input, values, indices, first) => {
      backend.copyHtoD(input, content);
      const call = { shape: [rows, length], ...given(dtype) };
      backend.sort({ ...call, input, values });
      backend.sort({ ...call, input, values: first, count });
      backend.sort({ ...call, input: values, indices });
      const places = new Int32Array((await bytesOf(backend, indices, 4 * rows * length)).buffer);
      expect(
        places.every((place, at) => place === at % length),
        "an element of a sorted line moved",
      );
      const whole = await bytesOf(backend, values, content.length);
      const few = await bytesOf(backend, first, rows * count * size);
      const prefix = Array.from({ length: rows }, (_, row) => [
        ...whole.subarray(row * length * size, (row * length + count) * size),
      ]);
      expectSame("the first elements, as bytes", [...few], prefix.flat());
    },
  );
}

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Laws on NaN and infinities, which not every backend keeps. */
export function specialValues(dtype: FloatType): readonly Law[] {
  return [
    numericsLaw(
      dtype,
      "sort",
      "puts NaN last, and infinities before it",
      kept("nan"),
      async ({ backend }) => {
        const input = [3, nan, -infinity, infinity, nan, -0, 0, 1];
        const content = encoded(input, dtype);
        // A NaN with a sign, too.
        content[4 * (content.length / 8) + content.length / 8 - 1]! |= 0x80;
        for (const [descending, places] of [
          [false, [2, 5, 6, 7, 0, 3, 1, 4]],
          [true, [3, 0, 7, 5, 6, 2, 1, 4]],
        ] as const)
          await withAllocations(backend, [content.length, 4 * input.length], async (from, indices) => {
            backend.copyHtoD(from, content);
            backend.sort({ shape: [input.length], descending, input: from, indices, dtype });
            const got = new Int32Array((await bytesOf(backend, indices, 4 * input.length)).buffer);
            expectSame(`places, ${descending ? "descending" : "ascending"}`, [...got], places);
          });
      },
    ),
  ];
}
