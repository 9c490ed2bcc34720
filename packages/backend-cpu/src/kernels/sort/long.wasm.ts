import { type FunctionBuilder, i32, i32x4, type Local, type Value, v128 } from "../../wasm/index.js";
import type { ComputedType } from "../elements/index.js";
import { defineKernel, type Kernel, type ParameterLocals } from "../kernel.js";
import {
  addRecord,
  countAt,
  keyOf,
  type LineParameter,
  lineOf,
  lineTypes,
  moveRecords,
  recordBytes,
  type WordTypes,
  writeResults,
} from "./records.wasm.js";

/**
 * Long lines are sorted digit by digit by all workers. Each line is in pieces, one a chunk. For each digit the records
 * of every piece are counted; then every piece moves its own behind those of smaller digits and those of the same
 * digit in pieces before it, which keeps equal ones in order.
 */
type PieceParameter = "records" | "pieces" | "pieceLength";

const pieceParameters: readonly PieceParameter[] = ["records", "pieces", "pieceLength"];

/** Bits of a digit: those of 32 bits are three, a third less to move than with four. */
export const longDigitBits = 11;

/** The bytes of the counts of a piece. */
export const countBytes: number = 4 * 2 ** longDigitBits;

/** The places of a chunk's elements in the line of number `line`, and where the line's records are. */
function pieceOf(
  f: FunctionBuilder,
  p: ParameterLocals<WordTypes<PieceParameter | "length">>,
  chunk: Local<"i32">,
) {
  const line = f.let(i32.divU(chunk, p.pieces));
  const begin = f.let(i32.mul(i32.remU(chunk, p.pieces), p.pieceLength));
  const end = f.let(i32.add(begin, i32.minU(p.pieceLength, i32.sub(p.length, begin))));
  const lineBytes = f.let(i32.mul(i32.mul(line, p.length), recordBytes));
  return { line, begin, end, lineBytes, records: f.let(i32.add(p.records, lineBytes)) };
}

export type PieceTypes = WordTypes<LineParameter | PieceParameter>;

const pieceTypes: PieceTypes = lineTypes(...pieceParameters);

/** Makes the records of a piece. */
export function recordsKernel(dtype: ComputedType): Kernel<PieceTypes> {
  return defineKernel<PieceTypes>({
    name: `sort_long_records_${dtype}`,
    parameters: pieceTypes,
    emit(f, { parameters: p, chunk }) {
      const { line, begin, end, records } = pieceOf(f, p, chunk);
      const { at, step } = lineOf(f, dtype, p, line);
      f.add(at, i32.mul(begin, step));
      const to = f.let(i32.add(records, i32.mul(begin, recordBytes)));
      f.forLocal(begin, end, () => {
        addRecord(f, to, keyOf(f, dtype, at, p), begin);
        f.add(at, step);
      });
    },
  });
}

/** Writes the results whose numbers are in a piece, of lines whose records are in order. */
export function resultsKernel(dtype: ComputedType): Kernel<PieceTypes> {
  return defineKernel<PieceTypes>({
    name: `sort_long_results_${dtype}`,
    parameters: pieceTypes,
    emit(f, { parameters: p, chunk }) {
      const { line, begin, end, records } = pieceOf(f, p, chunk);
      writeResults(f, dtype, p, lineOf(f, dtype, p, line), records, begin, i32.minU(end, p.count));
    },
  });
}

/** `counts`: those of each piece. `shift`: the first bit of the digit. */
export type DigitTypes = WordTypes<PieceParameter | "length" | "others" | "counts" | "shift">;

const digitTypes: DigitTypes = {
  ...{ records: "i32", pieces: "i32", pieceLength: "i32" },
  ...{ length: "i32", others: "i32", counts: "i32", shift: "i32" },
};

/** counts[piece][d] = how many records of the piece have the digit d. */
export const countDigitsKernel: Kernel<DigitTypes> = defineKernel<DigitTypes>({
  name: "sort_long_count",
  parameters: digitTypes,
  emit(f, { parameters: p, chunk }) {
    const { begin, end, records } = pieceOf(f, p, chunk);
    const counts = f.let(i32.add(p.counts, i32.mul(chunk, countBytes)));
    f.memoryFill(counts, 0, countBytes);
    const last = f.let(i32.add(records, i32.mul(end, recordBytes)));
    f.forRange(
      i32.add(records, i32.mul(begin, recordBytes)),
      last,
      (at) => {
        const counted = f.let(countAt(counts, f.let(i32.load(at)), p.shift, longDigitBits));
        f.store(counted, i32.add(i32.load(counted), 1));
      },
      { step: recordBytes },
    );
  },
});

/** Moves the records of a piece to their places in the order of a digit; all together if they share it. */
export const moveDigitsKernel: Kernel<DigitTypes> = defineKernel<DigitTypes>({
  name: "sort_long_move",
  parameters: digitTypes,
  scratchBytes: 2 * countBytes,
  emit(f, { parameters: p, chunk, scratch }) {
    const { line, begin, end, lineBytes, records } = pieceOf(f, p, chunk);
    const first = f.let(i32.add(p.counts, i32.mul(i32.mul(line, p.pieces), countBytes)));
    const own = f.let(i32.add(p.counts, i32.mul(chunk, countBytes)));
    const last = f.let(i32.add(first, i32.mul(p.pieces, countBytes)));
    // First, how many records of each digit are in pieces before this one, and in all.
    const totals = f.let(i32.add(scratch, countBytes));
    f.memoryFill(scratch, 0, countBytes);
    const addAll = (to: Local<"i32">, from: Value<"i32">, end: Value<"i32">): void => {
      const at = f.let(from);
      f.while(i32.ltU(at, end), () => {
        const sum = f.let(to);
        f.forRange(
          at,
          i32.add(at, countBytes),
          (counts) => {
            f.store(sum, i32x4.add(v128.load(sum), v128.load(counts)));
            f.add(sum, 16);
          },
          { step: 16 },
        );
        f.add(at, countBytes);
      });
    };
    addAll(scratch, first, own);
    f.memoryCopy(totals, scratch, countBytes);
    addAll(totals, own, last);
    const smaller = f.let(i32.const(0));
    f.forRange(
      scratch,
      totals,
      (at) => {
        f.store(at, i32.add(i32.load(at), smaller));
        f.add(smaller, i32.load(at, countBytes));
      },
      { step: 4 },
    );
    const from = f.let(i32.add(records, i32.mul(begin, recordBytes)));
    const to = f.let(i32.add(p.others, lineBytes));
    const count = f.let(i32.sub(end, begin));
    const key = f.let(i32.load(from));
    f.if(
      i32.eq(i32.load(countAt(own, key, p.shift, longDigitBits)), count),
      () => {
        const place = i32.load(countAt(scratch, key, p.shift, longDigitBits));
        f.memoryCopy(i32.add(to, i32.mul(place, recordBytes)), from, i32.mul(count, recordBytes));
      },
      () => moveRecords(f, { from, to, count, scratch }, p.shift, 0, longDigitBits),
    );
  },
});
