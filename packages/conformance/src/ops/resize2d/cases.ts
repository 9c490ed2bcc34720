import {
  elementTypes,
  type FloatType,
  type Resize2dArguments,
  type Resize2dKind,
  type Resize2dType,
  type ResizeCoordinates,
} from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, distribution, fixedPlacement, placement } from "../../arbitraries/shapes.js";
import { type Distribution, draw, random } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import type { Tolerance } from "../../tolerance.js";
import { collect, execute, measure, type Placement } from "../../workspace.js";
import { type Between, between, partsOf, type Resize2dShape, resize2d, resizeTolerance } from "./formula.js";

type Pair = readonly [number, number];

export interface Resize2dCase {
  readonly kind: Resize2dKind;
  readonly layout: "NCHW" | "NHWC";
  readonly batch: number;
  readonly channels: number;
  /** Height and width of the input, and of the output. */
  readonly from: Pair;
  readonly to: Pair;
  /** Null: not given, which means `half-pixel`. */
  readonly coordinates: ResizeCoordinates | null;
  readonly placement: Placement;
  readonly data: Distribution;
  readonly seed: number;
}

export const coordinateModes: readonly ResizeCoordinates[] = ["half-pixel", "align-corners", "asymmetric"];

export function resizing(
  parts: Partial<Resize2dCase> & Pick<Resize2dCase, "kind" | "from" | "to">,
): Resize2dCase {
  return {
    ...{ layout: "NCHW", batch: 1, channels: 1, coordinates: null },
    ...{ placement: fixedPlacement, data: "uniform", seed: 1 },
    ...parts,
  };
}

/** Elements that the input and the output of a random case may have. */
const work = 2 ** 14;

export function resizeCases(
  kinds: readonly Resize2dKind[],
  place: Arbitrary<Placement> = placement,
): Arbitrary<Resize2dCase> {
  const upTo = (...values: readonly number[]) => fc.constantFrom(...values);
  const extent = upTo(1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 31, 32, 33, 64, 65, 100);
  const from = fc.tuple(extent, extent);
  return fc
    .record({
      kind: fc.constantFrom(...kinds),
      layout: fc.constantFrom<Resize2dCase["layout"][]>("NCHW", "NHWC"),
      batch: upTo(1, 2, 3),
      channels: upTo(1, 1, 2, 3, 4, 5, 8, 17, 32),
      from,
      to: fc.tuple(extent, extent),
      ratio: upTo(0, 0, 0.5, 1, 2, 3, 4),
      coordinates: fc.constantFrom<Resize2dCase["coordinates"][]>(null, ...coordinateModes),
      placement: place,
      data: distribution,
      seed: dataSeed,
    })
    .map(({ ratio, ...value }): Resize2dCase => {
      // Whole ratios, along with any others.
      const scaled = (size: number) => Math.max(1, Math.floor(size * ratio));
      return ratio === 0 ? value : { ...value, to: [scaled(value.from[0]), scaled(value.from[1])] };
    })
    .filter(({ batch, channels, from, to }) => {
      const pixels = from[0] * from[1] + to[0] * to[1];
      return batch * channels * pixels <= work;
    });
}

/** As the documentation has it, and in exact numbers; computed here, independently of the code under test. */
function betweenAll(
  { kind, coordinates }: Pick<Resize2dCase, "kind" | "coordinates">,
  size: number,
  extent: number,
): readonly Between[] {
  const isNearest = kind === "nearest";
  return Array.from({ length: extent }, (_, o) => {
    // The place is numerator / divisor.
    const [numerator, divisor] =
      coordinates === "asymmetric"
        ? [o * size, extent]
        : coordinates === "align-corners"
          ? [extent === 1 ? 0 : o * (size - 1), Math.max(extent - 1, 1)]
          : [(2 * o + 1) * size - extent, 2 * extent];
    if (!isNearest || coordinates === "asymmetric") return between(numerator, divisor, size, isNearest);
    return between(2 * numerator + divisor, 2 * divisor, size, true);
  });
}

export function shapeOf(value: Resize2dCase): Resize2dShape {
  const { layout, batch, channels, from, to } = value;
  return {
    ...(layout === "NCHW" ? { planes: batch * channels, inner: 1 } : { planes: batch, inner: channels }),
    ...{ height: from[0], width: from[1] },
    ...{ rows: betweenAll(value, from[0], to[0]), columns: betweenAll(value, from[1], to[1]) },
  };
}

/** For `shapeAxes`. */
export function extentsOf({ batch, channels, from, to }: Resize2dCase): readonly number[] {
  return [to[0] * to[1], from[0] * from[1], batch * channels];
}

export function countOf({ batch, channels, from }: Resize2dCase): number {
  return batch * channels * from[0] * from[1];
}

/** All arguments but the operands. */
export function argumentsFor({
  kind,
  layout,
  batch,
  channels,
  from,
  to,
  coordinates,
}: Resize2dCase): Omit<Resize2dArguments, "input" | "output" | "dtype"> {
  return {
    kind,
    inputShape: layout === "NCHW" ? [batch, channels, ...from] : [batch, ...from, channels],
    ...(layout === "NCHW" ? {} : { layout }),
    ...{ outputHeight: to[0], outputWidth: to[1] },
    ...(coordinates === null ? {} : { coordinates }),
  };
}

/** Integers are of all sizes. */
function elementsOf(value: Resize2dCase, dtype: Resize2dType): Float64Array {
  const { range } = elementTypes[dtype];
  const count = countOf(value);
  if (range === undefined) return draw(value.data, count, value.seed, dtype as FloatType);
  const [least, most] = range;
  const next = random(value.seed);
  return new Float64Array(count).map(() => Math.floor(least + next() * (most - least + 1)));
}

/** Runs a case. Elements that no result is made of are poison. */
export async function checkResize(
  context: LawContext,
  dtype: Resize2dType,
  value: Resize2dCase,
  input: Float64Array = elementsOf(value, dtype),
  tolerance?: Tolerance,
): Promise<void> {
  const shape = shapeOf(value);
  const expected = collect((emit) => resize2d(shape, input, emit));
  const got = await execute({
    ...{ backend: context.backend, dtype, placement: value.placement },
    ...{ output: "output", written: expected.places },
    operands: {
      input: onlyUsed(shape, input),
      output: new Float64Array(expected.places.length).fill(Number.NaN),
    },
    call: (slices) => context.backend.resize2d({ ...slices, ...argumentsFor(value), ...given(dtype) }),
  });
  const allowed = tolerance ?? resizeTolerance(dtype, context.numerics);
  measure(context, extentsOf(value), got, expected, allowed);
}

function onlyUsed(shape: Resize2dShape, input: Float64Array): Float64Array {
  const { height, width, inner } = shape;
  const used = (size: number, all: readonly Between[]) => {
    const marks = new Uint8Array(size);
    for (const one of all) for (const [place] of partsOf(one)) marks[place] = 1;
    return marks;
  };
  const [rows, columns] = [used(height, shape.rows), used(width, shape.columns)];
  return input.map((element, i) => {
    const pixel = Math.floor(i / inner);
    const isUsed = rows[Math.floor(pixel / width) % height]! * columns[pixel % width]!;
    return isUsed === 1 ? element : Number.NaN;
  });
}
