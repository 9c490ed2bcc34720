import type { ScanKind } from "@backplane/core";
import { type FunctionBuilder, i32, type Local, shuffle32, type Value, v128 } from "../../wasm/index.js";
import { type ComputedType, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { lanesBelow, slabTypes, slabWork } from "../rows/index.js";
import { arithmeticOf, type ScanArithmetic } from "./arithmetic.js";

type Own = "input" | "output" | "states" | "stateBytes" | "exclusive" | "reverse";

/**
 * The states of all chunks are one after the other, if rows have several pieces. `exclusive` and `reverse` are 0
 * or 1.
 */
export const scanTypes: Readonly<Record<Own | keyof typeof slabTypes, "i32">> = {
  ...{ input: "i32", output: "i32", states: "i32", stateBytes: "i32", exclusive: "i32", reverse: "i32" },
  ...slabTypes,
};

export type ScanTypes = typeof scanTypes;

/** The bytes of the state of one row: a vector whose lanes are equal. */
export const rowStateBytes = 16;

type Vector = Value<"v128">;

/** Every lane of a state of rows that follow one another. */
function lastOf({ vectors }: ScanArithmetic, state: Local<"v128">): Vector {
  return shuffle32(vectors === 2 ? [2, 3, 2, 3] : [3, 3, 3, 3], state, state);
}

/** The state that one row has after its next four elements, as the state of each; `carry` is what it has before. */
function following(
  f: FunctionBuilder,
  arithmetic: ScanArithmetic,
  empty: Local<"v128">,
  carry: Local<"v128">,
  x: Vector,
): readonly Local<"v128">[] {
  const { join, vectors } = arithmetic;
  const parts = arithmetic.widen(f, x).map((part) => f.let(part));
  if (vectors === 1) {
    const pairs = f.let(join(shuffle32([0, 4, 5, 6], empty, parts[0]!), parts[0]!));
    return [f.let(join(carry, join(shuffle32([0, 1, 4, 5], empty, pairs), pairs)))];
  }
  const [low, high] = parts.map((part) => f.let(join(shuffle32([0, 1, 4, 5], empty, part), part)));
  return [f.let(join(carry, low!)), f.let(join(carry, join(shuffle32([2, 3, 2, 3], low!, low!), high!)))];
}

/** states[chunk] = what all elements of a piece of a row combine to. */
export function totalRowsKernel(kind: ScanKind, dtype: ComputedType): Kernel<ScanTypes> {
  const arithmetic = arithmeticOf(kind, dtype);
  const { vectors, join } = arithmetic;
  return defineKernel<ScanTypes>({
    name: `scan_${kind}_rows_total_${dtype}`,
    parameters: scanTypes,
    emit(f, { parameters, chunk }) {
      const elements = elementsOf(f, dtype);
      const isElement = lanesBelow(f);
      const { row, begin, count } = slabWork(f, parameters, chunk);
      const { input, length, states } = parameters;
      const first = i32.add(i32.mul(row, length), begin);
      const at = f.let(i32.add(input, i32.shl(first, elements.shift)));
      const identity = f.let(arithmetic.identity);
      const state = Array.from({ length: vectors }, () => f.let(arithmetic.empty));
      const take = (x: Vector): void => {
        for (const [i, part] of arithmetic.widen(f, x).entries()) f.set(state[i]!, join(state[i]!, part));
      };
      f.while(i32.geS(count, 4), () => {
        take(elements.load(at));
        f.add(at, 4 * elements.bytes);
        f.add(count, -4);
      });
      f.if(count, () => take(v128.bitselect(elements.load(at), identity, isElement(count))));
      const total = state[0]!;
      if (vectors === 2) f.set(total, join(total, state[1]!));
      else f.set(total, join(total, shuffle32([1, 0, 3, 2], total, total)));
      f.set(total, join(total, shuffle32([2, 3, 0, 1], total, total)));
      f.store(i32.add(states, i32.mul(chunk, rowStateBytes)), total);
    },
  });
}

/** Rows of neighbours: the axis is the innermost. The state of a piece begins with those of the pieces before it. */
export function scanRowsKernel(kind: ScanKind, dtype: ComputedType): Kernel<ScanTypes> {
  const arithmetic = arithmeticOf(kind, dtype);
  return defineKernel<ScanTypes>({
    name: `scan_${kind}_rows_${dtype}`,
    parameters: scanTypes,
    emit(f, { parameters, chunk }) {
      const elements = elementsOf(f, dtype);
      const bytes = 4 * elements.bytes;
      const isElement = lanesBelow(f);
      const { row, rowEnd, piece, begin, count } = slabWork(f, parameters, chunk);
      const { input, output, length, states, pieces, exclusive, reverse } = parameters;
      const offset = f.let(i32.shl(i32.add(i32.mul(row, length), begin), elements.shift));
      const rowBytes = f.let(i32.shl(length, elements.shift));
      const [identity, empty] = [f.let(arithmetic.identity), f.let(arithmetic.empty)];
      const initial = f.let(arithmetic.empty);
      f.if(i32.gtU(pieces, 1), () =>
        joinBefore(f, arithmetic, initial, { states, pieces, piece, chunk, reverse }),
      );

      const [carry, before] = [f.local("v128"), f.local("v128")];
      const [at, to, rest] = [f.local("i32"), f.local("i32"), f.local("i32")];
      /** The results of the next four elements. */
      const results = (x: Vector, isExclusive: boolean): Vector => {
        const state = following(f, arithmetic, empty, carry, x);
        f.set(carry, lastOf(arithmetic, state.at(-1)!));
        const lanes = f.let(arithmetic.lanes(state));
        if (!isExclusive) return lanes;
        const shifted = f.let(shuffle32([3, 4, 5, 6], before, lanes));
        f.set(before, lanes);
        return shifted;
      };
      const start = (): void => {
        f.set(carry, initial);
        f.set(before, arithmetic.lanes([initial, initial]));
        f.set(rest, count);
        f.set(at, i32.add(input, offset));
        f.set(to, i32.add(output, offset));
      };
      const forward = (isExclusive: boolean): void => {
        start();
        f.while(i32.geS(rest, 4), () => {
          elements.store(to, results(elements.load(at), isExclusive));
          f.add(at, bytes);
          f.add(to, bytes);
          f.add(rest, -4);
        });
        f.if(rest, () => elements.storeFirst(to, results(elements.load(at), isExclusive), rest));
      };
      const reversed = (x: Vector): Vector => {
        const lanes = f.let(x);
        return shuffle32([3, 2, 1, 0], lanes, lanes);
      };
      const backward = (isExclusive: boolean): void => {
        start();
        const end = f.let(i32.shl(i32.sub(count, 4), elements.shift));
        f.add(at, end);
        f.add(to, end);
        f.while(i32.geS(rest, 4), () => {
          elements.store(to, reversed(results(reversed(elements.load(at)), isExclusive)));
          f.add(at, -bytes);
          f.add(to, -bytes);
          f.add(rest, -4);
        });
        f.if(rest, () => {
          // The first elements of the row; nothing is read before them.
          const x = v128.bitselect(elements.load(i32.add(input, offset)), identity, isElement(rest));
          const found = reversed(results(reversed(x), isExclusive));
          elements.storeFirst(i32.add(output, offset), found, rest);
        });
      };
      const each = (body: () => void): void =>
        f.forLocal(row, rowEnd, () => {
          body();
          f.add(offset, rowBytes);
        });
      f.if(
        reverse,
        () =>
          f.if(
            exclusive,
            () => each(() => backward(true)),
            () => each(() => backward(false)),
          ),
        () =>
          f.if(
            exclusive,
            () => each(() => forward(true)),
            () => each(() => forward(false)),
          ),
      );
    },
  });
}

type StateLocals = Readonly<Record<"states" | "pieces" | "piece" | "chunk" | "reverse", Local<"i32">>>;

/** The states of pieces that come before that of this chunk: those of lower chunks, or of higher ones in reverse. */
function joinBefore(
  f: FunctionBuilder,
  { join }: ScanArithmetic,
  state: Local<"v128">,
  { states, ...place }: StateLocals,
): void {
  forPiecesBefore(f, place, f.let(i32.const(1)), (other) =>
    f.set(state, join(state, v128.load(i32.add(states, i32.mul(other, rowStateBytes))))),
  );
}

/** Goes through the chunks of the pieces before that of `chunk`; the chunks of a row's pieces are `panels` apart. */
export function forPiecesBefore(
  f: FunctionBuilder,
  { pieces, piece, chunk, reverse }: Omit<StateLocals, "states">,
  panels: Local<"i32">,
  body: (other: Local<"i32">) => void,
): void {
  const other = f.local("i32");
  const end = f.local("i32");
  f.if(
    reverse,
    () => {
      f.set(other, i32.add(chunk, panels));
      f.set(end, i32.add(chunk, i32.mul(i32.sub(pieces, piece), panels)));
    },
    () => {
      f.set(other, i32.sub(chunk, i32.mul(piece, panels)));
      f.set(end, chunk);
    },
  );
  f.forLocal(other, end, () => body(other), { step: panels });
}
