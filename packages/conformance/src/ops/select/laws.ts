import { type DType, type Scalar, type SelectType, selectTypes } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, extent, fixedPlacement, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { random } from "../../data.js";
import { encoded } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import { bytesOf, sameBytes, withAllocations } from "../../kit/checks.js";
import { product } from "../../kit/shapes.js";
import type { Law, LawContext } from "../../law.js";
import { execute, measure, type Placement, type Slice } from "../../workspace.js";

/** How an operand spreads over the shape: along which axes it repeats, or one number. */
type Spread = readonly boolean[] | "scalar";

interface SelectCase {
  readonly shape: readonly number[];
  readonly condition: readonly boolean[];
  readonly a: Spread;
  readonly b: Spread;
  readonly placement: Placement;
  readonly seed: number;
}

function cases(places: Arbitrary<Placement> = placement): Arbitrary<SelectCase> {
  const repeats = fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.boolean(), { maxLength: 4 }) },
  );
  const spread = fc.oneof(
    { weight: 4, arbitrary: repeats },
    { weight: 1, arbitrary: fc.constant("scalar" as const) },
  );
  return fc
    .record({
      shape: fc.oneof(fc.array(extent(), { maxLength: 2 }), fc.array(extent(12), { maxLength: 4 })),
      condition: repeats,
      ...{ a: spread, b: spread, placement: places, seed: dataSeed },
    })
    .filter(({ shape }) => product(shape) <= 2 ** 13);
}

const plain: SelectCase = {
  ...{ shape: [1], condition: [], a: [], b: [], placement: fixedPlacement, seed: 1 },
};

/** Around vectors, words and what chunks of threads and workgroups take; rows and columns that repeat. */
const largeCases: readonly SelectCase[] = [
  { ...plain, shape: [100_003] },
  { ...plain, shape: [2 ** 17], a: "scalar" },
  { ...plain, shape: [65_537], b: "scalar", placement: { before: [3, 1, 2, 5], shared: true } },
  { ...plain, shape: [300, 257], condition: [true], a: [false, true], b: [true, true] },
  { ...plain, shape: [129, 512], condition: [false, true], b: [true] },
  { ...plain, shape: [17, 30, 44], condition: [false, true], a: [true, false, true], b: [] },
];

const ranges: Readonly<Record<SelectType, readonly [low: number, high: number]>> = {
  f32: [-(2 ** 23), 2 ** 23],
  f16: [-2048, 2049],
  i32: [-(2 ** 31), 2 ** 31],
  u32: [0, 2 ** 32],
  u8: [0, 256],
};

function numbers(count: number, seed: number, dtype: SelectType): Float64Array<ArrayBuffer> {
  const next = random(seed);
  const [low, high] = ranges[dtype];
  return Float64Array.from({ length: count }, () => low + Math.floor(next() * (high - low)));
}

/** Any byte but 0 selects a. */
function conditions(count: number, seed: number): Float64Array<ArrayBuffer> {
  const next = random(seed);
  return Float64Array.from({ length: count }, () => (next() < 0.5 ? 0 : 1 + Math.floor(next() * 255)));
}

async function check(context: LawContext, dtype: SelectType, value: SelectCase): Promise<void> {
  const { backend } = context;
  const { shape, seed } = value;
  const n = product(shape);
  const shapeOf = (spread: Spread) =>
    spread === "scalar" ? [] : shape.map((size, axis) => (spread[axis] ? 1 : size));
  /** The place of an operand's element for the i-th result. */
  const placeOf = (own: readonly number[], i: number) => {
    let [place, step, rest] = [0, 1, i];
    for (let axis = own.length - 1; axis >= 0; axis--) {
      if (own[axis]! > 1) place += (rest % shape[axis]!) * step;
      step *= own[axis]!;
      rest = Math.floor(rest / shape[axis]!);
    }
    return place;
  };
  const conditionShape = shapeOf(value.condition);
  const shapeA = shapeOf(value.a);
  const shapeB = shapeOf(value.b);
  const isScalar = { a: value.a === "scalar", b: value.b === "scalar" };
  const condition = conditions(product(conditionShape), seed);
  const a = numbers(product(shapeA), seed + 1, dtype);
  const b = numbers(product(shapeB), seed + 2, dtype);
  // Where all inputs repeat, so does the output.
  const extents = conditionShape.map((size, axis) => Math.max(size, shapeA[axis] ?? 1, shapeB[axis] ?? 1));
  if (product(extents) !== n) return check(context, dtype, { ...value, shape: extents });
  const values = Array.from({ length: n }, (_, i) =>
    condition[placeOf(conditionShape, i)] !== 0 ? a[placeOf(shapeA, i)]! : b[placeOf(shapeB, i)]!,
  );
  const scalars: { readonly a?: Scalar; readonly b?: Scalar } = {
    ...(isScalar.a ? { a: { scalar: a[0]! } } : {}),
    ...(isScalar.b ? { b: { scalar: b[0]! } } : {}),
  };
  const operands: Record<string, Float64Array> = { condition, output: new Float64Array(n).fill(Number.NaN) };
  if (!isScalar.a) operands.a = a;
  if (!isScalar.b) operands.b = b;
  // Without shapes, every other time.
  const isFlat = shape.length === 1 && [conditionShape, shapeA, shapeB].every((own) => product(own) === n);
  const shapes = {
    conditionShape,
    ...(isScalar.a ? {} : { shapeA }),
    ...(isScalar.b ? {} : { shapeB }),
  };
  const places = values.map((_, i) => i);
  const got = await execute<string>({
    ...{ backend, dtype: dtype as DType, placement: value.placement, output: "output", written: places },
    dtypes: { condition: "u8" },
    operands,
    call: (slices: Readonly<Record<string, Slice>>) =>
      backend.select({
        ...given(dtype),
        ...(isFlat && seed % 2 === 0 ? { n } : shapes),
        ...({ ...slices, ...scalars } as unknown as { condition: Slice; a: Slice; b: Slice; output: Slice }),
      }),
  });
  measure(
    context,
    [n, Math.min(a.length, b.length)],
    got,
    { places, values, magnitudes: values.map(() => 0) },
    () => 0,
  );
}

export const selectLaws: readonly Law[] = selectTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: SelectType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "select", name, operation: "select", dtype, run },
    exempt: (_capabilities, backend) =>
      backend.supports("select", { dtype }) ? undefined : `select in ${dtype} is not supported`,
  });
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, value), { runs: 2 }),
    ),
    law("counts every element on larger shapes", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value), { quick: 6 }),
    ),
    law("takes a condition as it is at each call", (context) =>
      context.forEach([5, 64, 1000], async (n) => {
        const { backend } = context;
        const [a, b] = [numbers(n, 1, dtype), numbers(n, 2, dtype)];
        const [bytesA, bytesB] = [encoded(a, dtype), encoded(b, dtype)];
        await withAllocations(
          backend,
          [n, bytesA.length, bytesB.length, bytesA.length],
          async (condition, first, second, output) => {
            backend.copyHtoD(first, bytesA);
            backend.copyHtoD(second, bytesB);
            for (const chosen of [conditions(n, 3), conditions(n, 4)]) {
              backend.copyHtoD(condition, encoded(chosen, "u8"));
              backend.select({ condition, a: first, b: second, output, n, ...given(dtype) });
              const expected = a.map((value, i) => (chosen[i] !== 0 ? value : b[i]!));
              const got = await bytesOf(backend, output, bytesA.length);
              sameBytes(got, encoded(expected, dtype), `${n} elements`);
            }
          },
        );
      }),
    ),
    law("touches nothing but the elements of its output", (context) =>
      context.forAll(cases(oddPlacement), (value) => check(context, dtype, value)),
    ),
  ];
}
