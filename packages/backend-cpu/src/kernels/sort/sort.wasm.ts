import { type FunctionBuilder, i32, type Local, select, type Value, v128 } from "../../wasm/index.js";
import { type ComputedType, elementFormats } from "../elements/index.js";
import { defineKernel, type Kernel, type ParameterLocals } from "../kernel.js";

const names = [
  ...["input", "values", "indices", "work"],
  ...["lineBytes", "byChunk", "lines", "perChunk"],
  ...["length", "inner", "count", "descending"],
] as const;

/** 0 in place of an output: there is none. `descending`: 0, or all ones. */
export type SortParameter =
  | "input"
  | "values"
  | "indices"
  | "work"
  | "lineBytes"
  | "byChunk"
  | "lines"
  | "perChunk"
  | "length"
  | "inner"
  | "count"
  | "descending";

export type SortTypes = Readonly<Record<SortParameter, "i32">>;

const sortTypes = Object.fromEntries(names.map((name) => [name, "i32"])) as SortTypes;

/** A record is the key of an element, and its place in the line. */
const recordBytes = 8;

/** The bytes in which one line is sorted: its records, twice. */
export function workBytes(length: number): number {
  return 2 * recordBytes * length;
}

/** Lines of no more elements are sorted by insertion, which for them is quicker than counting digits. */
export const insertedLength = 32;

/** Digits of 8 bits, the lowest first, and the bytes of their counts. */
const digitBytes = 4 * 256;
const digits = [0, 1, 2, 3] as const;

/**
 * Sorts lines by their keys, whole numbers whose unsigned order is that of the elements: by insertion, or digit by
 * digit (W. Knuth, The Art of Computer Programming, volume 3, section 5.2.5). Both are stable. A digit that all keys
 * share is passed over.
 */
export function sortKernel(dtype: ComputedType): Kernel<SortTypes> {
  const { shift, bytes } = elementFormats[dtype];
  return defineKernel<SortTypes>({
    name: `sort_${dtype}`,
    parameters: sortTypes,
    scratchBytes: digits.length * digitBytes,
    emit(f, { parameters: p, chunk, scratch, worker }) {
      const line = f.let(i32.mul(chunk, p.perChunk));
      const end = f.let(i32.add(line, i32.minU(i32.sub(p.lines, line), p.perChunk)));
      const owner = select<"i32">(chunk, worker, p.byChunk);
      const first = f.let(i32.add(p.work, i32.mul(owner, p.lineBytes)));
      const half = f.let(i32.mul(p.length, recordBytes));
      const [from, to, swapped] = [f.local("i32"), f.local("i32"), f.local("i32")];
      const elementStep = f.let(i32.shl(p.inner, shift));

      f.forLocal(line, end, () => {
        const outer = f.let(i32.divU(line, p.inner));
        const column = f.let(i32.remU(line, p.inner));
        const start = i32.add(i32.mul(i32.mul(outer, p.length), p.inner), column);
        const lineAt = f.let(i32.add(p.input, i32.shl(start, shift)));
        f.set(from, first);
        f.set(to, i32.add(first, half));
        const counts = i32.gtU(p.length, insertedLength);
        f.if(counts, () => f.memoryFill(scratch, 0, digits.length * digitBytes));

        const at = f.let(lineAt);
        f.forRange(0, p.length, (j) => {
          const key = f.let(keyOf(f, dtype, at, p));
          const record = f.let(i32.add(from, i32.shl(j, 3)));
          f.store(record, key);
          f.store(record, j, 4);
          f.if(counts, () => {
            for (const digit of digits) {
              const counted = f.let(countAt(scratch, key, digit));
              f.store(counted, i32.add(i32.load(counted, digit * digitBytes), 1), digit * digitBytes);
            }
          });
          f.add(at, elementStep);
        });

        f.if(
          counts,
          () => {
            for (const digit of digits) {
              const firstCount = f.let(
                i32.load(countAt(scratch, f.let(i32.load(from)), digit), digit * digitBytes),
              );
              f.if(i32.ne(firstCount, p.length), () => {
                scatter(f, { from, to, scratch, length: p.length }, digit);
                f.set(swapped, from);
                f.set(from, to);
                f.set(to, swapped);
              });
            }
          },
          () => insert(f, from, p.length),
        );

        const result = f.let(i32.add(i32.mul(i32.mul(outer, p.count), p.inner), column));
        f.forRange(0, p.count, (j) => {
          const place = f.let(i32.load(i32.add(from, i32.shl(j, 3)), 4));
          f.if(p.indices, () => f.store(i32.add(p.indices, i32.shl(result, 2)), place));
          f.if(p.values, () => {
            const source = i32.add(lineAt, i32.mul(place, elementStep));
            const destination = i32.add(p.values, i32.shl(result, shift));
            if (bytes === 2) f.store16(destination, i32.load16U(source));
            else f.store(destination, i32.load(source));
          });
          f.add(result, p.inner);
        });
      });
    },
  });
}

/** The place of the count of a key's digit, less the offset of the digit's counts. */
function countAt(scratch: Local<"i32">, key: Local<"i32">, digit: number): Value<"i32"> {
  return i32.add(scratch, i32.shl(i32.and(i32.shrU(key, 8 * digit), 255), 2));
}

interface Records {
  readonly from: Local<"i32">;
  readonly to: Local<"i32">;
  readonly scratch: Local<"i32">;
  readonly length: Local<"i32">;
}

/** Moves records in the order of one digit. Counts become the place of the next record of each digit. */
function scatter(f: FunctionBuilder, { from, to, scratch, length }: Records, digit: number): void {
  const place = f.let(i32.const(0));
  const one = f.local("i32");
  const offset = digit * digitBytes;
  f.forRange(
    i32.add(scratch, offset),
    i32.add(scratch, offset + digitBytes),
    (at) => {
      f.set(one, i32.load(at));
      f.store(at, place);
      f.add(place, one);
    },
    { step: 4 },
  );
  const source = f.let(from);
  const end = f.let(i32.add(from, i32.shl(length, 3)));
  f.forLocal(
    source,
    end,
    () => {
      const key = f.let(i32.load(source));
      const counted = f.let(countAt(scratch, key, digit));
      const next = f.let(i32.load(counted, offset));
      f.store(counted, i32.add(next, 1), offset);
      f.storeLane(64, 0, i32.add(to, i32.shl(next, 3)), v128.load64Zero(source));
    },
    { step: recordBytes },
  );
}

/** Puts each record behind those before it whose keys are not larger. */
function insert(f: FunctionBuilder, from: Local<"i32">, length: Local<"i32">): void {
  f.forRange(1, length, (j) => {
    const at = f.let(i32.add(from, i32.shl(j, 3)));
    const record = f.let(v128.load64Zero(at));
    const key = f.let(i32.load(at));
    f.block((exit) => {
      f.loop((again) => {
        f.brIf(exit, i32.eq(at, from));
        f.brIf(exit, i32.leU(i32.load(i32.sub(at, recordBytes)), key));
        f.storeLane(64, 0, at, v128.load64Zero(i32.sub(at, recordBytes)));
        f.add(at, -recordBytes);
        f.br(again);
      });
    });
    f.storeLane(64, 0, at, record);
  });
}

/** NaN has the largest key, descending or not, and zeros have the same. */
function keyOf(
  f: FunctionBuilder,
  dtype: ComputedType,
  at: Local<"i32">,
  { descending }: ParameterLocals<SortTypes>,
): Value<"i32"> {
  const sign = i32.const(-(2 ** 31));
  if (dtype === "u32") return i32.xor(i32.load(at), descending);
  if (dtype === "i32") return i32.xor(i32.xor(i32.load(at), sign), descending);
  const raw = f.let(dtype === "f16" ? i32.shl(i32.load16U(at), 16) : i32.load(at));
  const infinity = dtype === "f16" ? 0x7c000000 : 0x7f800000;
  const isNan = i32.gtU(i32.and(raw, 0x7fffffff), infinity);
  const bits = f.let(select<"i32">(i32.const(0), raw, i32.eq(raw, sign)));
  // All bits of negative numbers are inverted, and the sign of the others.
  const key = i32.xor(bits, i32.or(i32.shrS(bits, 31), sign));
  return select<"i32">(i32.const(-1), i32.xor(key, descending), isNan);
}
