import {
  callValue,
  type FunctionBuilder,
  type FunctionReference,
  i32,
  type Local,
  type ModuleBuilder,
  select,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type ComputedType, elementFormats } from "../elements/index.js";
import type { ParameterLocals } from "../kernel.js";

const lineNames = ["input", "values", "indices", "length", "inner", "count", "descending"] as const;

/** 0 in place of an output: there is none. `descending`: 0, or all ones. */
export type LineParameter = (typeof lineNames)[number];

/** Parameters of one type, i32. */
export type WordTypes<Name extends string> = Readonly<Record<Name, "i32">>;

/** Parameters of these names, and those of lines. */
export function lineTypes<const Name extends string>(
  ...names: readonly Name[]
): WordTypes<Name | LineParameter> {
  return Object.fromEntries([...lineNames, ...names].map((name) => [name, "i32"])) as WordTypes<
    Name | LineParameter
  >;
}

/** A record is the key of an element, and its place in the line. */
export const recordBytes = 8;

/** Not more records are sorted by insertion, which for them is quicker than counting digits. */
export const insertedLength = 32;

/** Bits of a digit, and the bytes of its counts. */
const digitBits = 8;
const countBytes = 4 * 2 ** digitBits;

/** The first bits of the digits of a key, the lowest first. The high half of f16's keys says all. */
export function digitShifts(dtype: ComputedType, bits: number = digitBits): readonly number[] {
  const first = dtype === "f16" ? 16 : 0;
  return Array.from({ length: Math.ceil((32 - first) / bits) }, (_, i) => first + i * bits);
}

/** Scratch that `sortRecords` needs. */
export const sortScratchBytes: number = 4 * countBytes;

interface Records {
  readonly from: Local<"i32">;
  /** Memory for as many. */
  readonly to: Local<"i32">;
  readonly count: Value<"i32">;
  readonly scratch: Local<"i32">;
}

/**
 * Sorts records by their keys: by insertion, or digit by digit (W. Knuth, The Art of Computer Programming, volume 3,
 * section 5.2.5). Both are stable. A digit that all keys share is passed over. Returns `from` or `to`, where they
 * are then.
 */
export function sortRecords(
  module: ModuleBuilder,
  dtype: ComputedType,
  { from, to, count, scratch }: Records,
): Value<"i32"> {
  const sorted = module.shared(`sort_records_${digitShifts(dtype).length}`, (label) =>
    sortFunction(module, label, digitShifts(dtype)),
  );
  return callValue("i32", sorted, from, to, count, scratch);
}

function sortFunction(module: ModuleBuilder, label: string, shifts: readonly number[]): FunctionReference {
  const types = { from: "i32", to: "i32", count: "i32", scratch: "i32" } as const;
  return module.functionOf("i32", label, types, (f, { from, to, count, scratch }) => {
    f.if(i32.leU(count, insertedLength), () => {
      insert(f, from, count);
      f.return(from);
    });
    f.memoryFill(scratch, 0, shifts.length * countBytes);
    const recordsBytes = f.let(i32.mul(count, recordBytes));
    const end = f.let(i32.add(from, recordsBytes));
    f.forRange(
      from,
      end,
      (at) => {
        const key = f.let(i32.load(at));
        for (const [i, shift] of shifts.entries()) {
          const counted = f.let(countAt(scratch, key, shift));
          f.store(counted, i32.add(i32.load(counted, i * countBytes), 1), i * countBytes);
        }
      },
      { step: recordBytes },
    );
    const swapped = f.local("i32");
    for (const [i, shift] of shifts.entries()) {
      const own = i * countBytes;
      const firstCount = i32.load(countAt(scratch, f.let(i32.load(from)), shift), own);
      f.if(i32.ne(firstCount, count), () => {
        const place = f.let(i32.const(0));
        const one = f.local("i32");
        f.forRange(
          i32.add(scratch, own),
          i32.add(scratch, own + countBytes),
          (at) => {
            f.set(one, i32.load(at));
            f.store(at, place);
            f.add(place, one);
          },
          { step: 4 },
        );
        moveRecords(f, { from, to, count, scratch }, shift, own);
        f.set(swapped, from);
        f.set(from, to);
        f.set(to, swapped);
      });
    }
    return from;
  });
}

/** The place of the count of a key's digit of `bits` bits, if the counts are at `counts`. */
export function countAt(
  counts: Local<"i32">,
  key: Local<"i32">,
  shift: number | Value<"i32">,
  bits: number = digitBits,
): Value<"i32"> {
  return i32.add(counts, i32.shl(i32.and(i32.shrU(key, shift), 2 ** bits - 1), 2));
}

/**
 * Moves records to the places of their digits, which are at `scratch + offset`. Each becomes that of the next record
 * of the digit.
 */
export function moveRecords(
  f: FunctionBuilder,
  { from, to, count, scratch }: Records,
  shift: number | Value<"i32">,
  offset: number,
  bits: number = digitBits,
): void {
  const end = f.let(i32.add(from, i32.mul(count, recordBytes)));
  f.forRange(
    from,
    end,
    (source) => {
      const key = f.let(i32.load(source));
      const counted = f.let(countAt(scratch, key, shift, bits));
      const next = f.let(i32.load(counted, offset));
      f.store(counted, i32.add(next, 1), offset);
      f.storeLane(64, 0, i32.add(to, i32.mul(next, recordBytes)), v128.load64Zero(source));
    },
    { step: recordBytes },
  );
}

/** Puts each record behind those before it whose keys are not larger. */
function insert(f: FunctionBuilder, from: Local<"i32">, count: Local<"i32">): void {
  f.forRange(1, count, (j) => {
    const at = f.let(i32.add(from, i32.mul(j, recordBytes)));
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

/** Where a line and its results are. */
export interface Line {
  /** The address of its first element. */
  readonly at: Local<"i32">;
  /** Bytes from one element to the next. */
  readonly step: Local<"i32">;
  /** The number of its first result. */
  readonly result: Local<"i32">;
}

export function lineOf(
  f: FunctionBuilder,
  dtype: ComputedType,
  p: ParameterLocals<WordTypes<LineParameter>>,
  line: Value<"i32">,
): Line {
  const { shift } = elementFormats[dtype];
  const outer = f.let(i32.divU(line, p.inner));
  const column = f.let(i32.remU(line, p.inner));
  const start = (extent: Value<"i32">) => i32.add(i32.mul(i32.mul(outer, extent), p.inner), column);
  return {
    at: f.let(i32.add(p.input, i32.shl(start(p.length), shift))),
    step: f.let(i32.shl(p.inner, shift)),
    result: f.let(start(p.count)),
  };
}

/** Appends the key and the place of an element to the records that end at `end`. */
export function addRecord(
  f: FunctionBuilder,
  end: Local<"i32">,
  key: Value<"i32">,
  place: Value<"i32">,
): void {
  f.store(end, key);
  f.store(end, place, 4);
  f.add(end, recordBytes);
}

/** Writes the results from `begin` to `end` of a line whose records in order are at `from`. */
export function writeResults(
  f: FunctionBuilder,
  dtype: ComputedType,
  p: ParameterLocals<WordTypes<LineParameter>>,
  line: Line,
  from: Local<"i32">,
  begin: Value<"i32">,
  end: Value<"i32">,
): void {
  const { shift, bytes } = elementFormats[dtype];
  const result = f.let(i32.add(line.result, i32.mul(begin, p.inner)));
  f.forRange(begin, end, (j) => {
    const place = f.let(i32.load(i32.add(from, i32.mul(j, recordBytes)), 4));
    f.if(p.indices, () => f.store(i32.add(p.indices, i32.shl(result, 2)), place));
    f.if(p.values, () => {
      const source = i32.add(line.at, i32.mul(place, line.step));
      const destination = i32.add(p.values, i32.shl(result, shift));
      if (bytes === 2) f.store16(destination, i32.load16U(source));
      else f.store(destination, i32.load(source));
    });
    f.add(result, p.inner);
  });
}

/**
 * A whole number whose unsigned order is that of the elements. NaN has the largest, descending or not, and zeros have
 * the same.
 */
export function keyOf(
  f: FunctionBuilder,
  dtype: ComputedType,
  at: Value<"i32">,
  { descending }: { readonly descending: Local<"i32"> },
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
