import { type FloatType, floatTypes, type RopeKind, ropeKinds } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import {
  alignedPlacement,
  dataSeed,
  distribution,
  extent,
  oddPlacement,
  placement,
} from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, random } from "../../data.js";
import { given } from "../../kit/arguments.js";
import { computeWith, expectSame } from "../../kit/values.js";
import type { Law, LawContext } from "../../law.js";
import { collect, execute, measure, type Placement } from "../../workspace.js";
import { type RopeInputs, type RopeShape, rope, ropeTolerance } from "./formula.js";

/** Which axis of the rows moves slowest; the others follow in the order batch, head, row. */
type Order = "batch" | "row" | "head";

interface RopeCase {
  readonly kind: RopeKind;
  readonly batch: number;
  readonly heads: number;
  readonly rows: number;
  /** Pairs of a row, and elements after them. */
  readonly half: number;
  readonly rest: number;
  readonly length: number;
  readonly inverse: boolean;
  /** `start`: from there on. `shared`: the same list for all batch entries. `each`: a list for each. */
  readonly by: "start" | "shared" | "each";
  readonly start: number;
  /** Order and gaps of the rows of the input and of the output; none: contiguous, and not given. */
  readonly input?: Order | undefined;
  readonly output?: Order | undefined;
  /** Elements between rows, where there is an order. */
  readonly gap: number;
  readonly over: boolean;
  readonly data: Distribution | "whole";
  readonly placement: Placement;
  readonly seed: number;
}

function caseOf(plain: Partial<RopeCase>): RopeCase {
  return {
    ...{ kind: "halves", batch: 1, heads: 1, rows: 1, half: 4, rest: 0, length: 9, inverse: false },
    ...{ by: "start", start: 0, gap: 0, over: false },
    ...{ data: "normal", placement: alignedPlacement, seed: 1, ...plain },
  };
}

/** Elements that one random case may have. */
const work = 2 ** 13;

function cases(places: Arbitrary<Placement> = placement): Arbitrary<RopeCase> {
  const order = fc.constantFrom<(Order | undefined)[]>(undefined, "batch", "row", "head");
  return fc
    .record({
      kind: fc.constantFrom(...ropeKinds),
      ...{ batch: extent(3), heads: extent(9), rows: extent(40) },
      half: fc.oneof(extent(9), fc.constantFrom(4, 8, 32, 64)),
      rest: fc.constantFrom(0, 0, 1, 4, 8, 12),
      length: extent(60),
      inverse: fc.boolean(),
      by: fc.constantFrom<RopeCase["by"]>("start", "shared", "each"),
      start: fc.constantFrom(0, 0, 3, 70),
      ...{ input: order, output: order, gap: fc.constantFrom(0, 1, 4, 8), over: fc.boolean() },
      data: distribution,
      ...{ placement: places, seed: dataSeed },
    })
    .filter(({ batch, heads, rows, half, rest }) => batch * heads * rows * (2 * half + rest) <= work);
}

/** Around vectors, words, heads that one invocation takes, chunks of threads; tables longer than a binding shows. */
const largeCases: readonly RopeCase[] = [
  caseOf({ heads: 5, rows: 130, half: 32, length: 200, by: "shared", batch: 2 }),
  caseOf({ kind: "neighbours", heads: 3, rows: 70, half: 64, rest: 8, length: 90, start: 25 }),
  caseOf({ heads: 9, rows: 33, half: 15, rest: 3, length: 40, input: "row", output: "row", gap: 1 }),
  caseOf({ kind: "neighbours", heads: 2, rows: 900, half: 7, length: 1000, batch: 3, by: "each" }),
  caseOf({ heads: 4, rows: 21, half: 48, length: 30_001, by: "each", batch: 2, over: true }),
  caseOf({ rows: 5, half: 1100, rest: 52, length: 7, over: true }),
  caseOf({ kind: "neighbours", rows: 4001, half: 1, length: 4001, over: true, inverse: true }),
  caseOf({ heads: 8, rows: 257, half: 4, length: 257, input: "row", output: "head", gap: 8 }),
];

function shapeOf(value: RopeCase): RopeShape {
  const { kind, batch, heads, rows, half, rest, length, inverse, by, start } = value;
  const size = 2 * half + rest;
  const strides = (order: Order | undefined): RopeShape["inputStrides"] => {
    const step = size + (order === undefined ? 0 : value.gap);
    if (order === "row") return [rows * heads * step, step, heads * step];
    if (order === "head") return [rows * step, batch * rows * step, step];
    return [heads * rows * step, rows * step, step];
  };
  return {
    ...{ kind, batch, heads, rows, size, rotated: 2 * half, length, inverse },
    inputStrides: strides(value.over ? value.output : value.input),
    outputStrides: strides(value.output),
    positionStride: by === "each" ? rows : 0,
    start: by === "start" ? start : 0,
  };
}

function reachOf({ batch, heads, rows, size }: RopeShape, strides: RopeShape["inputStrides"]): number {
  return (batch - 1) * strides[0] + (heads - 1) * strides[1] + (rows - 1) * strides[2] + size;
}

/** Positions, a quarter of them just out of range or at the ends of i32. */
function drawPositions(count: number, length: number, seed: number): Float64Array {
  const next = random(seed);
  const outside = [-1, length, -length, -(2 ** 31), 2 ** 31 - 1];
  return Float64Array.from({ length: count }, () =>
    next() < 0.25 ? outside[Math.floor(5 * next())]! : Math.floor(next() * length),
  );
}

function inputsOf(value: RopeCase, shape: RopeShape, dtype: FloatType): RopeInputs {
  const { batch, rows, half, length, by, data, seed } = value;
  const numbers = (count: number, from: number, type: FloatType) =>
    data === "whole" ? drawIntegers(6, count, from) : draw(data, count, from, type);
  return {
    input: numbers(reachOf(shape, shape.inputStrides), seed, dtype),
    cos: numbers(length * half, seed + 1, "f32"),
    sin: numbers(length * half, seed + 2, "f32"),
    positions:
      by === "start" ? undefined : drawPositions(by === "each" ? batch * rows : rows, length, seed + 3),
  };
}

/** All arguments but operands and the element type. */
function argumentsFor(value: RopeCase, shape: RopeShape) {
  const { kind, batch, heads, rows, size, rotated, length, inverse } = shape;
  const { inputStrides, outputStrides, positionStride, start } = shape;
  return {
    ...{ kind, batch, heads, rows, size, rotated, length, inverse, positionStride, start },
    ...((value.over ? value.output : value.input) === undefined ? {} : { inputStrides }),
    ...(value.output === undefined ? {} : { outputStrides }),
  };
}

async function check(context: LawContext, dtype: FloatType, value: RopeCase): Promise<void> {
  const { backend } = context;
  const shape = shapeOf(value);
  const inputs = inputsOf(value, shape, dtype);
  const expected = collect((emit) => rope(shape, inputs, emit));
  const { input, cos, sin, positions } = inputs;
  const others = { cos, sin, ...(positions === undefined ? {} : { positions }) };
  const poison = new Float64Array(reachOf(shape, shape.outputStrides)).fill(Number.NaN);
  const rest = argumentsFor(value, shape);
  const got = await execute<string>({
    ...{ backend, dtype, placement: value.placement, output: value.over ? "input" : "output" },
    dtypes: { cos: "f32", sin: "f32", positions: "i32" },
    operands: { input, ...(value.over ? {} : { output: poison }), ...others },
    written: expected.places,
    call: (slices) => {
      const places = slices as Record<"input" | "output" | "cos" | "sin", never>;
      const over = value.over ? { output: places.input } : {};
      backend.rope({ ...rest, ...places, ...over, ...given(dtype) });
    },
  });
  const tolerance = value.data === "whole" ? () => 0 : ropeTolerance(dtype, context.numerics);
  measure(context, [shape.size, shape.batch * shape.heads * shape.rows], got, expected, tolerance);
}

export const ropeLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"]): Law => ({
    ...{ topic: "rope", name, operation: "rope", dtype, run },
    exempt: (_capabilities, backend) =>
      backend.supports("rope", { dtype }) ? undefined : `rope in ${dtype} is not supported`,
  });
  const compute = (
    { backend }: LawContext,
    rest: Readonly<Record<string, unknown>>,
    inputs: Readonly<Record<string, readonly number[]>>,
  ) =>
    computeWith(...([backend, "rope", dtype, rest, inputs, { output: inputs.input!.length }] as const), {
      cos: "f32",
      sin: "f32",
      positions: "i32",
    });
  return [
    law("stays within the error bound", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, value)),
    ),
    law("rotates every row of larger shapes", (context) =>
      context.forEach(largeCases, (value) => check(context, dtype, value), { quick: 5 }),
    ),
    law("is exact on whole numbers", (context) =>
      context.forAll(cases(), (value) => check(context, dtype, { ...value, data: "whole" })),
    ),
    law("copies with a cosine of 1 and a sine of 0, and turns a quarter with 0 and 1", (context) =>
      context.forEach(ropeKinds, async (kind) => {
        const input = Array.from(draw("normal", 48, 3, dtype));
        const rest = { kind, rows: 6, size: 8, length: 6 };
        const table = (value: number) => new Array<number>(24).fill(value);
        const still = await compute(context, rest, { input, cos: table(1), sin: table(0) });
        expectSame("turned by nothing", still.output!, input);
        const turned = await compute(context, rest, { input, cos: table(0), sin: table(1) });
        const back = await compute(...([context, { ...rest, inverse: true }] as const), {
          input: turned.output!,
          cos: table(0),
          sin: table(1),
        });
        expectSame("turned a quarter and back", back.output!, input);
        const pair = kind === "halves" ? 4 : 1;
        const [x, y] = [input[0]!, input[pair]!];
        expectSame("a quarter", [turned.output![0]!, turned.output![pair]!], [-y, x]);
      }),
    ),
    law("takes start as positions that count up", (context) =>
      context.forEach(ropeKinds, async (kind) => {
        const [rows, half, length, start] = [7, 6, 10, 5];
        const input = Array.from(draw("normal", 3 * rows * 14, 5, dtype));
        const [cos, sin] = [6, 7].map((seed) => Array.from(draw("normal", length * half, seed, "f32")));
        const tables = { input, cos: cos!, sin: sin! };
        const rest = { kind, heads: 3, rows, size: 14, rotated: 12, length };
        const counted = await compute(context, { ...rest, start }, tables);
        const positions = Array.from({ length: rows }, (_, r) => start + r);
        const listed = await compute(context, rest, { ...tables, positions });
        expectSame("rows from a start", counted.output!, listed.output!);
      }),
    ),
    law("touches nothing but its rows", (context) =>
      context.forAll(cases(oddPlacement), (value) => check(context, dtype, value)),
    ),
  ];
}
