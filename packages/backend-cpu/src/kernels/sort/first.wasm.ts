import { f32x4, i32, i32x4, type Value, v128 } from "../../wasm/index.js";
import { type ComputedType, elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { forUnits, type WorkParameter, workOf, workParameters } from "./lines.wasm.js";
import {
  addRecord,
  keyOf,
  type LineParameter,
  lineOf,
  lineTypes,
  recordBytes,
  sortRecords,
  sortScratchBytes,
  type WordTypes,
  writeResults,
} from "./records.wasm.js";

/** Vectors that are compared with the threshold before a branch, and their elements. */
const roundVectors = 4;
const roundElements = 4 * roundVectors;

/** Elements of a line of columns that are gathered before they are compared. */
const gatheredElements = 1024;

/**
 * Records of a buffer besides a round: some times those wanted, so that sorting all of them is rare. Of elements in the
 * opposite order, which all go through the buffer, each is sorted 4/3 times.
 */
export function capacityFor(count: number): number {
  return Math.max(4 * count, 512);
}

/** The bytes of a buffer, twice. */
export function firstWorkBytes(count: number): number {
  return 2 * recordBytes * (capacityFor(count) + roundElements);
}

/**
 * A unit is a piece of a line. `partials`: where the first records of each piece go, `count` of them; of one piece
 * they become results.
 */
export type FirstTypes = WordTypes<
  LineParameter | WorkParameter | "units" | "perChunk" | "capacity" | "pieces" | "pieceLength" | "partials"
>;

const firstTypes: FirstTypes = lineTypes(
  ...workParameters,
  ...(["units", "perChunk", "capacity", "pieces", "pieceLength", "partials"] as const),
);

/** Where x has no place before the threshold; of NaN this is not known. */
const notBefore: Readonly<
  Record<"f32" | "i32" | "u32", (x: Value<"v128">, threshold: Value<"v128">) => Value<"v128">>
> = { f32: f32x4.ge, i32: i32x4.geS, u32: i32x4.geU };

/**
 * The first elements of a piece, in order. A buffer keeps the first ones so far, and then those that come before the
 * last of these, the threshold; when it is full, it is sorted and cut. Vectors without such an element need one
 * comparison. An element equal to the threshold comes after it, because it is behind it.
 */
export function sortFirstKernel(dtype: ComputedType): Kernel<FirstTypes> {
  const { shift, bytes, lanes } = elementFormats[dtype];
  return defineKernel<FirstTypes>({
    name: `sort_first_${dtype}`,
    parameters: firstTypes,
    scratchBytes: sortScratchBytes + 4 * gatheredElements,
    emit(f, { parameters: p, chunk, scratch, worker, module }) {
      const elements = elementsOf(f, dtype);
      // Descending, the largest lanes become the smallest.
      const flip = f.let(i32x4.splat(i32.and(p.descending, lanes === "f32" ? -(2 ** 31) : -1)));
      const gathered = f.let(i32.add(scratch, sortScratchBytes));
      const from = f.let(workOf(p, chunk, worker));
      const to = f.let(i32.add(from, i32.mul(i32.add(p.capacity, roundElements), recordBytes)));
      const [end, full, swapped] = [f.local("i32"), f.local("i32"), f.local("i32")];
      const [thresholdKey, threshold] = [f.local("i32"), f.local("v128")];

      const order = (): void => {
        const count = f.let(i32.shrU(i32.sub(end, from), 3));
        f.set(swapped, from);
        f.set(from, sortRecords(module, dtype, { from, to, count, scratch }));
        f.if(i32.ne(from, swapped), () => f.set(to, swapped));
        f.set(end, i32.add(from, i32.mul(i32.minU(count, p.count), recordBytes)));
      };

      forUnits(f, chunk, p.units, p.perChunk, (unit) => {
        const line = lineOf(f, dtype, p, i32.divU(unit, p.pieces));
        const place = f.let(i32.mul(i32.remU(unit, p.pieces), p.pieceLength));
        const pieceEnd = f.let(i32.add(place, i32.minU(p.pieceLength, i32.sub(p.length, place))));
        const next = f.let(i32.add(line.at, i32.mul(place, line.step)));

        const cut = (): void => {
          order();
          f.set(full, i32.add(from, i32.mul(p.capacity, recordBytes)));
          f.set(thresholdKey, i32.load(i32.sub(end, recordBytes)));
          const last = i32.load(i32.sub(end, recordBytes), 4);
          const lastAt = i32.add(line.at, i32.mul(last, line.step));
          f.set(threshold, v128.xor(elements.loadSplat(lastAt), flip));
        };
        const take = (at: Value<"i32">, place: Value<"i32">): void => {
          const key = f.let(keyOf(f, dtype, at, p));
          f.if(i32.ltU(key, thresholdKey), () => addRecord(f, end, key, place));
        };
        const cutIfFull = (): void => f.if(i32.gtU(end, full), cut);

        f.set(end, from);
        const filled = f.let(i32.add(place, i32.minU(p.capacity, i32.sub(pieceEnd, place))));
        f.forLocal(place, filled, () => {
          addRecord(f, end, keyOf(f, dtype, next, p), place);
          f.add(next, line.step);
        });
        f.if(i32.ltU(place, pieceEnd), () => {
          cut();
          const at = f.local("i32");
          const rest = f.local("i32");
          f.while(i32.ltU(place, pieceEnd), () => {
            f.set(at, next);
            f.set(rest, i32.sub(pieceEnd, place));
            f.if(i32.ne(p.inner, 1), () => {
              f.set(at, gathered);
              f.set(rest, i32.minU(rest, gatheredElements));
              const gatheredEnd = f.let(i32.add(gathered, i32.shl(rest, shift)));
              f.forLocal(
                at,
                gatheredEnd,
                () => {
                  if (bytes === 2) f.store16(at, i32.load16U(next));
                  else f.store(at, i32.load(next));
                  f.add(next, line.step);
                },
                { step: bytes },
              );
              f.set(at, gathered);
            });
            f.while(i32.geU(rest, roundElements), () => {
              const others = Array.from({ length: roundVectors }, (_, i) =>
                f.let(notBefore[lanes](v128.xor(elements.load(at, 4 * bytes * i), flip), threshold)),
              );
              f.if(
                i32.eqz(i32x4.allTrue(others.reduce<Value<"v128">>((a, b) => v128.and(a, b), others[0]!))),
                () => {
                  const masks = others.map((other, i) => i32.shl(i32x4.bitmask(other), 4 * i));
                  const mask = f.let(
                    i32.xor(
                      masks.reduce((a, b) => i32.or(a, b)),
                      2 ** roundElements - 1,
                    ),
                  );
                  f.while(mask, () => {
                    const lane = f.let(i32.ctz(mask));
                    take(f.let(i32.add(at, i32.shl(lane, shift))), i32.add(place, lane));
                    f.set(mask, i32.and(mask, i32.sub(mask, 1)));
                  });
                  cutIfFull();
                },
              );
              f.add(at, roundElements * bytes);
              f.add(place, roundElements);
              f.add(rest, -roundElements);
            });
            f.while(rest, () => {
              take(at, place);
              f.add(at, bytes);
              f.add(place, 1);
              f.add(rest, -1);
            });
            cutIfFull();
          });
        });
        order();
        f.if(
          i32.eq(p.pieces, 1),
          () => writeResults(f, dtype, p, line, from, i32.const(0), p.count),
          () => {
            const partial = i32.add(p.partials, i32.mul(i32.mul(unit, p.count), recordBytes));
            f.memoryCopy(partial, from, i32.sub(end, from));
          },
        );
      });
    },
  });
}

/** `records`: how many each line has, the first ones of its pieces. `others`: memory for as many. */
export type JoinTypes = WordTypes<LineParameter | "partials" | "others" | "records" | "stride">;

const joinTypes: JoinTypes = lineTypes("partials", "others", "records", "stride");

/** A chunk takes the first elements of a line out of the first ones of its pieces. */
export function joinFirstKernel(dtype: ComputedType): Kernel<JoinTypes> {
  return defineKernel<JoinTypes>({
    name: `sort_first_join_${dtype}`,
    parameters: joinTypes,
    scratchBytes: sortScratchBytes,
    emit(f, { parameters: p, chunk, scratch, module }) {
      const offset = f.let(i32.mul(chunk, p.stride));
      const from = f.let(i32.add(p.partials, offset));
      const to = f.let(i32.add(p.others, offset));
      const sorted = f.let(sortRecords(module, dtype, { from, to, count: p.records, scratch }));
      writeResults(f, dtype, p, lineOf(f, dtype, p, chunk), sorted, i32.const(0), p.count);
    },
  });
}
