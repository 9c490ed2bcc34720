import {
  elementTypes,
  type FloatType,
  floatTypes,
  integerTypes,
  isTest,
  type UnaryKind,
  unaryKinds,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, oddPlacement, placement } from "../../arbitraries/shapes.js";
import { draw, random } from "../../data.js";
import { floatFormats } from "../../elements.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { compute, expectSame, kept, numericsLaw } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { execute, measure, type Placement } from "../../workspace.js";
import { integersOf } from "../binary/exact-data.js";
import { functionOf, integerUnaryKinds, type UnaryType } from "./formula.js";

interface ExactCase {
  readonly kind: UnaryKind;
  readonly n: number;
  readonly placement: Placement;
  readonly seed: number;
}

const testKinds = unaryKinds.filter(isTest);

function cases(kinds: readonly UnaryKind[], place: Arbitrary<Placement> = placement): Arbitrary<ExactCase> {
  return fc.record({
    kind: fc.constantFrom(...kinds),
    n: fc.constantFrom(1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 63, 64, 65, 255, 257, 1023, 1025, 4099),
    placement: place,
    seed: dataSeed,
  });
}

/** Integers with the ends of the type; bytes, half of them 0; floats that every backend keeps. */
function drawInput(dtype: UnaryType, n: number, seed: number): Float64Array {
  const { range } = elementTypes[dtype];
  if (range === undefined) return draw("sparse", n, seed, dtype as FloatType);
  const next = random(seed);
  const one = integersOf(range, next);
  return new Float64Array(n).map(() => (dtype === "u8" && next() < 0.5 ? 0 : one()));
}

async function check(context: LawContext, dtype: UnaryType, value: ExactCase): Promise<void> {
  const { backend } = context;
  const { kind, n, seed } = value;
  const input = drawInput(dtype, n, seed);
  const values = Array.from(input, functionOf(kind, dtype));
  const places = values.map((_, place) => place);
  const got = await execute({
    ...{ backend, dtype, placement: value.placement, output: "output", written: places },
    ...(isTest(kind) ? { dtypes: { output: "u8" as const } } : {}),
    operands: { input, output: new Float64Array(n).fill(Number.NaN) },
    call: (slices) => backend.unary({ ...slices, kind, n, dtype }),
  });
  measure(context, [n], got, { places, values, magnitudes: values }, () => 0);
}

function lawsFor(dtype: UnaryType, kinds: readonly UnaryKind[], what: string): readonly Law[] {
  const { having, law } = lawsOnKinds("unary", dtype, kinds);
  return [
    ...kinds.map((kind) =>
      law(`${kind}: is exact`, [kind], (context) =>
        context.forAll(cases([kind]), (value) => check(context, dtype, value), { runs: 0.25 }),
      ),
    ),
    law(`${what} touch nothing but n elements of their output`, kinds, (context) =>
      context.forAll(cases(having(context), oddPlacement), (value) => check(context, dtype, value)),
    ),
    law(`${what} take n = 0 for nothing to do`, kinds, (context) =>
      context.forAll(cases(having(context)), (value) => check(context, dtype, { ...value, n: 0 }), {
        runs: 0.25,
      }),
    ),
  ];
}

/** Laws without any tolerance: tests of floats, whose results are bytes, integers and truth values. */
export const exactLaws: readonly Law[] = [
  ...floatTypes.flatMap((dtype) => lawsFor(dtype, testKinds, "tests")),
  ...integerTypes.flatMap((dtype) => lawsFor(dtype, integerUnaryKinds, "integer kinds")),
  ...lawsFor("u8", ["logicalNot"], "truth values"),
];

/** Laws on tests of numbers that not every backend keeps. */
export function testsOfSpecialValues(dtype: FloatType): readonly Law[] {
  const { largest, smallestSubnormal } = floatFormats[dtype];
  const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;
  const expectTests = async ({ backend }: LawContext, numbers: readonly number[]) => {
    for (const kind of testKinds) {
      if (!backend.supports("unary", { dtype, kind })) continue;
      const n = numbers.length;
      const call = ([input]: readonly unknown[], output: unknown) =>
        backend.unary({ kind, n, dtype, input: input as never, output: output as never });
      const got = await compute(backend, dtype, [numbers], n, call, "u8");
      expectSame(`${kind} of ${numbers.join(", ")}`, got, numbers.map(functionOf(kind, dtype)));
    }
  };
  const law = (name: string, promise: Parameters<typeof kept>[0], numbers: readonly number[]) =>
    numericsLaw(dtype, "unary", name, kept(promise), (context) => expectTests(context, numbers));
  return [
    law("tests tell a NaN from numbers", "nan", [0, nan, 1, -largest, nan]),
    law("tests tell infinities from numbers", "infinity", [largest, infinity, -infinity, -largest, -0, 1]),
    law("tests take subnormal numbers for finite ones", "subnormals", [
      smallestSubnormal,
      -smallestSubnormal,
    ]),
  ];
}
