import type { ScanKind } from "@backplane/core";
import { type FunctionBuilder, i32, type Local, type Value, v128 } from "../../wasm/index.js";
import { type ComputedType, type Elements, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { panelColumns, slabWork } from "../rows/index.js";
import { arithmeticOf, type ScanArithmetic } from "./arithmetic.js";
import { forPiecesBefore, type ScanTypes, scanTypes } from "./rows.wasm.js";

/** Lines that go through a state while it is in registers. */
const roundLines = 4;

/** The bytes of the states of four columns, at most. */
const quadBytes = 32;

/** The bytes of the state of a panel. */
export function panelStateBytes(kind: ScanKind, dtype: ComputedType, width: number): number {
  return 16 * arithmeticOf(kind, dtype).vectors * Math.ceil(width / 4);
}

interface Panel {
  readonly elements: Elements;
  readonly arithmetic: ScanArithmetic;
  /** The address of the states of the columns. */
  readonly states: Local<"i32">;
  readonly columns: Local<"i32">;
}

/** Where results of a vector of columns go. Absent: there are none. */
type Take = (line: number, lanes: () => Value<"v128">, count: Local<"i32"> | undefined) => void;

/** Goes along the columns, four at a time, and takes the next lines into their states. */
function goAlong(
  f: FunctionBuilder,
  { elements, arithmetic, states, columns }: Panel,
  lines: readonly Local<"i32">[],
  moving: readonly Local<"i32">[],
  isExclusive: boolean,
  take: Take,
): void {
  const own = f.let(states);
  const rest = f.let(columns);
  const one = (count: Local<"i32"> | undefined): void => {
    const state = Array.from({ length: arithmetic.vectors }, (_, i) => f.let(v128.load(own, 16 * i)));
    const xs = lines.map((line) => f.let(elements.load(line)));
    for (const [line, x] of xs.entries()) {
      if (isExclusive) take(line, () => arithmetic.lanes(state), count);
      for (const [i, part] of arithmetic.widen(f, x).entries())
        f.set(state[i]!, arithmetic.join(state[i]!, part));
      if (!isExclusive) take(line, () => arithmetic.lanes(state), count);
    }
    for (const [i, part] of state.entries()) f.store(own, part, 16 * i);
  };
  f.while(i32.geS(rest, 4), () => {
    one(undefined);
    for (const local of [...lines, ...moving]) f.add(local, 4 * elements.bytes);
    f.add(own, 16 * arithmetic.vectors);
    f.add(rest, -4);
  });
  f.if(rest, () => one(rest));
}

function clear(f: FunctionBuilder, { states, columns, arithmetic }: Panel): void {
  const empty = f.let(arithmetic.empty);
  const bytes = 16 * arithmetic.vectors;
  const end = f.let(i32.add(states, i32.mul(i32.shrU(i32.add(columns, 3), 2), bytes)));
  f.forRange(states, end, (at) => f.store(at, empty), { step: 16 });
}

/** states[chunk] = what all elements of each column of a piece combine to. */
export function totalColumnsKernel(kind: ScanKind, dtype: ComputedType): Kernel<ScanTypes> {
  const arithmetic = arithmeticOf(kind, dtype);
  return defineKernel<ScanTypes>({
    name: `scan_${kind}_columns_total_${dtype}`,
    parameters: scanTypes,
    emit(f, { parameters, chunk }) {
      const elements = elementsOf(f, dtype);
      const { row, begin, count, column, columns } = slabWork(f, parameters, chunk);
      const { input, length, inner } = parameters;
      const states = f.let(i32.add(parameters.states, i32.mul(chunk, parameters.stateBytes)));
      const panel: Panel = { elements, arithmetic, states, columns };
      clear(f, panel);
      const first = i32.add(i32.mul(i32.add(i32.mul(row, length), begin), inner), column);
      const at = f.let(i32.add(input, i32.shl(first, elements.shift)));
      const lineBytes = f.let(i32.shl(inner, elements.shift));
      const some = (count: number): void => {
        const lines = Array.from({ length: count }, (_, i) => f.let(i32.add(at, i32.mul(lineBytes, i))));
        goAlong(f, panel, lines, [], false, () => {});
        f.add(at, i32.mul(lineBytes, count));
      };
      f.while(i32.geU(count, roundLines), () => {
        some(roundLines);
        f.add(count, -roundLines);
      });
      f.while(count, () => {
        some(1);
        f.add(count, -1);
      });
    },
  });
}

/** Lines of columns: another axis. The states of the columns are in scratch memory. */
export function scanColumnsKernel(kind: ScanKind, dtype: ComputedType): Kernel<ScanTypes> {
  const arithmetic = arithmeticOf(kind, dtype);
  return defineKernel<ScanTypes>({
    name: `scan_${kind}_columns_${dtype}`,
    parameters: scanTypes,
    scratchBytes: (quadBytes * panelColumns) / 4,
    emit(f, { parameters, chunk, scratch }) {
      const elements = elementsOf(f, dtype);
      const { row, rowEnd, piece, begin, count, column, columns } = slabWork(f, parameters, chunk);
      const { input, output, length, inner, states, stateBytes, panels, pieces, exclusive, reverse } =
        parameters;
      const panel: Panel = { elements, arithmetic, states: scratch, columns };
      const lineBytes = f.let(i32.shl(inner, elements.shift));
      const slabBytes = f.let(i32.mul(length, lineBytes));
      const first = i32.add(i32.mul(i32.add(i32.mul(row, length), begin), inner), column);
      const offset = f.let(i32.shl(first, elements.shift));
      // From one line to the next.
      const step = f.let(lineBytes);
      f.if(reverse, () => {
        f.add(offset, i32.mul(i32.sub(count, 1), lineBytes));
        f.set(step, i32.sub(0, lineBytes));
      });
      const [at, to, rest] = [f.local("i32"), f.local("i32"), f.local("i32")];
      const some = (count: number, isExclusive: boolean): void => {
        const places = Array.from({ length: count }, (_, i) => f.let(i32.mul(step, i)));
        const from = places.map((place) => f.let(i32.add(at, place)));
        const into = places.map((place) => f.let(i32.add(to, place)));
        goAlong(f, panel, from, into, isExclusive, (line, lanes, columnCount) => {
          if (columnCount === undefined) elements.store(into[line]!, lanes());
          else elements.storeFirst(into[line]!, lanes(), columnCount);
        });
        f.add(at, i32.mul(step, count));
        f.add(to, i32.mul(step, count));
        f.add(rest, -count);
      };
      const slab = (isExclusive: boolean): void => {
        f.while(i32.geS(rest, roundLines), () => some(roundLines, isExclusive));
        f.while(rest, () => some(1, isExclusive));
      };
      f.forLocal(row, rowEnd, () => {
        clear(f, panel);
        f.if(i32.gtU(pieces, 1), () =>
          forPiecesBefore(f, { pieces, piece, chunk, reverse }, panels, (other) => {
            const from = f.let(i32.add(states, i32.mul(other, stateBytes)));
            f.forRange(
              0,
              stateBytes,
              (i) => {
                const mine = f.let(i32.add(scratch, i));
                f.store(mine, arithmetic.join(v128.load(mine), v128.load(i32.add(from, i))));
              },
              { step: 16 },
            );
          }),
        );
        f.set(rest, count);
        f.set(at, i32.add(input, offset));
        f.set(to, i32.add(output, offset));
        f.if(
          exclusive,
          () => slab(true),
          () => slab(false),
        );
        f.add(offset, slabBytes);
      });
    },
  });
}
