import type { FloatType } from "@backplane/core";
import { type FunctionBuilder, f32x4, i8x16, i32, type Local, type Value, v128 } from "../../wasm/index.js";
import { type Elements, elementsOf, widenHalves } from "../elements/index.js";
import {
  type PanelName,
  panelRows,
  panelTypes,
  type ResizingName,
  resizedAxes,
  resizingTypes,
  storeLineFunction,
} from "../images/index.js";
import { defineKernel, type Kernel, type ParameterLocals } from "../kernel.js";
import {
  baseAt,
  blendFunction,
  blendTwoFunction,
  doubledRowsFunction,
  doubleFunction,
  recordBytes,
  uppersAt,
  weightsAt,
  widenFunction,
} from "./lines.wasm.js";
import { blended, blendLocals, isDoubledAlong, placesAlong, setBlend } from "./places.js";

export type RowsTypes = Readonly<Record<"input" | "output" | ResizingName | PanelName, "i32">>;

const rowsTypes: RowsTypes = {
  input: "i32",
  output: "i32",
  ...resizingTypes,
  /** Of rows of the output; panels have a multiple of 4 columns. */
  ...panelTypes,
};

/** The most columns of a panel. */
export const panelColumns = 1024;

/** A row of the input with the columns of the output, in f32. Eight columns are written at a time. */
const lineBytes = 4 * panelColumns + 16;

/**
 * `near`: four neighbouring columns are made of four neighbouring elements, which one vector has; that is so if images become at
 * least half as wide again. `far`: each element is loaded by itself.
 */
export type Reach = "near" | "far";

/** `doubled`: between two elements there are two columns, a quarter from either, and none elsewhere but for the first and the last. */
export type BilinearReach = Reach | "doubled";

/** What all kernels of rows share: the rows and columns of a chunk, and their places. */
function chunkOf(f: FunctionBuilder, p: ParameterLocals<RowsTypes>, chunk: Local<"i32">) {
  const axes = resizedAxes(p);
  return {
    ...panelRows(f, p, chunk, p.outHeight, p.outWidth),
    ...{ rowPlace: placesAlong(f, axes.y), columnPlace: placesAlong(f, axes.x) },
  };
}

type Chunk = ReturnType<typeof chunkOf>;

/**
 * Writes the records of a chunk's columns. Near: which bytes of the vector that begins at the first of the four; far: bytes from
 * the start of the row.
 */
function writeRecords(
  f: FunctionBuilder,
  { x, columns, columnPlace }: Chunk,
  records: Local<"i32">,
  reach: Reach,
  shift: number,
): void {
  const { place, set } = columnPlace;
  const at = f.let(records);
  const base = f.let(i32.const(0));
  f.forRange(
    0,
    columns,
    (first) => {
      for (let lane = 0; lane < 4; lane++) {
        set(i32.add(x, i32.add(first, lane)));
        if (lane === 0) {
          f.set(base, place.lower);
          f.store(at, i32.shl(base, shift), baseAt);
        }
        const leading = (element: Local<"i32">) =>
          reach === "far"
            ? i32.shl(element, shift)
            : i32.add(i32.mul(i32.sub(element, base), 0x04040404), 0x03020100);
        f.store(at, leading(place.lower), 4 * lane);
        // Near: if nothing is taken of an upper element, places past the vector, where it has zeros.
        const none = i32.sub(0, i32.eq(place.lower, place.upper));
        const upper = leading(place.upper);
        f.store(at, reach === "far" ? upper : i32.or(upper, none), uppersAt + 4 * lane);
        f.store(at, place.weight, weightsAt + 4 * lane);
      }
      f.add(at, recordBytes);
    },
    { step: 4 },
  );
}

/** Calls `body` with the address of each row of the output in the chunk, after its place is set. */
function forRows(
  f: FunctionBuilder,
  p: ParameterLocals<RowsTypes>,
  { x, row, y, rowPlace, forRows: forAll }: Chunk,
  shift: number,
  body: (to: Local<"i32">) => void,
): void {
  const to = f.let(i32.add(p.output, i32.shl(i32.add(i32.mul(row, p.outWidth), x), shift)));
  forAll(() => {
    rowPlace.set(y);
    body(to);
    f.add(to, i32.shl(p.outWidth, shift));
  });
}

/** The address of a row of the input. */
function rowAt(
  { input, height, width }: ParameterLocals<RowsTypes>,
  { plane }: Chunk,
  line: Local<"i32">,
  shift: number,
): Value<"i32"> {
  return i32.add(input, i32.shl(i32.mul(i32.add(i32.mul(plane, height), line), width), shift));
}

/**
 * Planes one after the other, bilinear. Near and doubled: a row of the input first gets the columns of the output, in f32, and the
 * last two of these are kept, since most rows of the output lie between the same ones as the row before; images twice as high and
 * wide take 1.4 to 1.8 times as long without, and images that become wider and lower 1.3 to 1.6 times as long with it. Two rows
 * that lie between the same ones are made in one pass, and if rows are doubled too and of f32, without lines. Far: of both rows, the
 * elements of four columns at a time. Chunk: `rowsPerChunk` rows of the output, or their part in one panel.
 */
export function bilinearRowsKernel(dtype: FloatType, reach: BilinearReach): Kernel<RowsTypes> {
  return defineKernel<RowsTypes>({
    name: `resize_bilinear_rows_${dtype}_${reach}`,
    parameters: rowsTypes,
    scratchBytes: (reach === "doubled" ? 0 : (panelColumns / 4) * recordBytes) + 2 * lineBytes,
    emit(f, { parameters, chunk, scratch, module }) {
      const elements = elementsOf(f, dtype);
      const { shift } = elements;
      const work = chunkOf(f, parameters, chunk);
      const records = f.let(i32.add(scratch, 2 * lineBytes));
      if (reach !== "doubled") writeRecords(f, work, records, reach, shift);
      const { lower, upper, weight } = work.rowPlace.place;
      const [low, high] = [f.local("i32"), f.local("i32")];
      const setRows = () => {
        f.set(low, rowAt(parameters, work, lower, shift));
        f.set(high, rowAt(parameters, work, upper, shift));
      };
      if (reach !== "far") {
        const { columns } = work;
        // Where the two lines are, and of which rows.
        const [first, second] = [f.let(scratch), f.let(i32.add(scratch, lineBytes))];
        const [ofFirst, ofSecond] = [f.let(i32.const(0)), f.let(i32.const(0))];
        const spare = f.local("i32");
        const swap = (a: Local<"i32">, b: Local<"i32">) => {
          f.set(spare, a);
          f.set(a, b);
          f.set(b, spare);
        };
        const widen = (line: Local<"i32">, held: Local<"i32">, row: Local<"i32">) =>
          f.if(i32.ne(held, row), () => {
            if (reach === "near") f.call(widenFunction(module, dtype), line, row, records, columns);
            else f.call(doubleFunction(module, dtype), line, row, work.x, columns, parameters.width);
            f.set(held, row);
          });
        const axisY = resizedAxes(parameters).y;
        const next = placesAlong(f, axisY);
        const rowBytes = f.let(i32.shl(parameters.outWidth, shift));
        forRows(f, parameters, work, shift, (to) => {
          setRows();
          f.if(i32.eq(low, ofSecond), () => {
            swap(first, second);
            swap(ofFirst, ofSecond);
          });
          widen(first, ofFirst, low);
          f.if(
            i32.eq(low, high),
            () => f.call(storeLineFunction(module, dtype), to, first, columns),
            () => {
              next.set(i32.add(work.y, 1));
              const isBetween = i32.and(i32.eq(next.place.lower, lower), i32.eq(next.place.upper, upper));
              const isThere = i32.and(
                i32.ltU(i32.add(work.y, 1), parameters.outHeight),
                i32.ltU(i32.add(work.row, 1), work.rowEnd),
              );
              const lines = [first, second, weight] as const;
              f.if(
                i32.and(isBetween, isThere),
                () => {
                  const passed = f.let(i32.const(1));
                  const two = () => {
                    widen(second, ofSecond, high);
                    const nextTo = i32.add(to, rowBytes);
                    f.call(blendTwoFunction(module, dtype), to, ...lines, columns, nextTo, next.place.weight);
                  };
                  // All pairs of rows that are left in the plane, or in the chunk.
                  const many = () => {
                    const rest = i32.sub(parameters.outHeight, i32.add(work.y, 1));
                    const pairs = f.let(
                      i32.minU(i32.shrU(rest, 1), i32.shrU(i32.sub(work.rowEnd, work.row), 1)),
                    );
                    const across = [work.x, columns, parameters.width] as const;
                    f.call(doubledRowsFunction(module), to, rowBytes, low, pairs, ...across);
                    f.set(passed, i32.sub(i32.shl(pairs, 1), 1));
                  };
                  if (reach === "doubled" && dtype === "f32") f.if(isDoubledAlong(axisY), many, two);
                  else two();
                  f.add(to, i32.mul(passed, rowBytes));
                  f.add(work.y, passed);
                  f.add(work.row, passed);
                },
                () => {
                  widen(second, ofSecond, high);
                  f.call(blendFunction(module, dtype), to, ...lines, columns);
                },
              );
            },
          );
        });
        return;
      }
      const rows = blendLocals(f);
      const columns = blendLocals(f);
      const at = f.local("i32");
      const remaining = f.local("i32");
      const record = f.local("i32");
      const result = f.local("v128");
      const gather = gathering(f, dtype);
      const line = (from: Local<"i32">) =>
        blended(columns, gather(from, record), gather(from, f.let(i32.add(record, uppersAt))));

      forRows(f, parameters, work, shift, (to) => {
        setRows();
        setBlend(f, rows, f32x4.splat(weight));
        f.set(at, to);
        f.set(record, records);
        f.set(remaining, work.columns);
        f.while(i32.gtS(remaining, 0), () => {
          setBlend(f, columns, v128.load(record, weightsAt));
          f.set(result, line(low));
          f.if(i32.ne(low, high), () => f.set(result, blended(rows, result, line(high))));
          storeUpTo(f, elements, at, result, remaining);
          f.add(record, recordBytes);
        });
      });
    },
  });
}

/** Stores four elements, or those that remain, and moves on. */
function storeUpTo(
  f: FunctionBuilder,
  elements: Pick<Elements, "bytes" | "store" | "storeFirst">,
  at: Local<"i32">,
  values: Local<"v128">,
  remaining: Local<"i32">,
): void {
  f.if(
    i32.geS(remaining, 4),
    () => elements.store(at, values),
    () => elements.storeFirst(at, values, remaining),
  );
  f.add(at, 4 * elements.bytes);
  f.add(remaining, -4);
}

/** Returns four elements of a row, as many bytes from its start as four numbers in memory say. */
function gathering(
  f: FunctionBuilder,
  dtype: FloatType,
): (row: Local<"i32">, offsets: Local<"i32">) => Local<"v128"> {
  const widen = dtype === "f16" ? widenHalves(f) : undefined;
  const words = (row: Local<"i32">, offsets: Local<"i32">): Local<"v128"> => {
    const of = (lane: number) => i32.add(row, i32.load(offsets, 4 * lane));
    const vector = f.let(dtype === "f16" ? v128.load16Splat(of(0)) : v128.load32Zero(of(0)));
    for (const lane of [1, 2, 3])
      f.set(
        vector,
        dtype === "f16" ? v128.load16Lane(lane, of(lane), vector) : v128.load32Lane(lane, of(lane), vector),
      );
    return vector;
  };
  return (row, offsets) => (widen === undefined ? words(row, offsets) : f.let(widen(words(row, offsets))));
}

/** The same for the nearest element of each place, of 4 bytes, 2 or 1. A row that is like the one before is copied from there. */
export function nearestRowsKernel(bytes: 1 | 2 | 4, reach: Reach): Kernel<RowsTypes> {
  const shift = Math.log2(bytes);
  return defineKernel<RowsTypes>({
    name: `resize_nearest_rows_${bytes}_${reach}`,
    parameters: rowsTypes,
    scratchBytes: (panelColumns / 4) * recordBytes,
    emit(f, { parameters, chunk, scratch }) {
      const work = chunkOf(f, parameters, chunk);
      writeRecords(f, work, scratch, reach, shift);
      const [low, before] = [f.local("i32"), f.let(i32.const(0))];
      const at = f.local("i32");
      const remaining = f.local("i32");
      const record = f.local("i32");
      const single = f.local("i32");
      const outRowBytes = f.let(i32.shl(parameters.outWidth, shift));
      const of = (lane: number) => i32.add(low, i32.load(record, 4 * lane));
      forRows(f, parameters, work, shift, (to) => {
        f.set(low, rowAt(parameters, work, work.rowPlace.place.lower, shift));
        f.if(
          i32.eq(low, before),
          () => f.memoryCopy(to, i32.sub(to, outRowBytes), i32.shl(work.columns, shift)),
          () => {
            f.set(before, low);
            f.set(at, to);
            f.set(record, scratch);
            f.set(remaining, work.columns);
            f.while(i32.geS(remaining, 4), () => {
              if (reach === "near") {
                const vector = v128.load(i32.add(low, i32.load(record, baseAt)));
                f.store(at, i8x16.swizzle(vector, v128.load(record)));
              } else for (let lane = 0; lane < 4; lane++) moveElement(f, bytes, at, of(lane), bytes * lane);
              f.add(at, 4 * bytes);
              f.add(record, recordBytes);
              f.add(remaining, -4);
            });
            f.while(i32.gtS(remaining, 0), () => {
              // Near: the first byte of the element in the vector.
              const first = i32.load8U(record);
              const nearBytes = i32.add(i32.load(f.let(recordOf(record)), baseAt), first);
              f.set(single, reach === "near" ? i32.add(low, nearBytes) : of(0));
              moveElement(f, bytes, at, single);
              f.add(at, bytes);
              f.add(record, 4);
              f.add(remaining, -1);
            });
          },
        );
      });
    },
  });
}

function moveElement(
  f: FunctionBuilder,
  bytes: 1 | 2 | 4,
  to: Local<"i32">,
  from: Value<"i32">,
  offset = 0,
): void {
  if (bytes === 4) f.store(to, i32.load(from), offset);
  else if (bytes === 2) f.store16(to, i32.load16U(from), offset);
  else f.store8(to, i32.load8U(from), offset);
}

/** The start of the record that an address is in: records begin at multiples of their size. */
function recordOf(at: Local<"i32">): Value<"i32"> {
  return i32.and(at, -recordBytes);
}
