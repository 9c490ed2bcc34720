import type { QuantizedBits } from "@backplane/core";
import {
  type Arg,
  type FunctionBuilder,
  f32x4,
  i8x16,
  i16x8,
  type Local,
  type Value,
  v128,
} from "../../wasm/index.js";

/** Weights that are taken at once: every block has a whole number of these. */
export const unitWeights = 16;

export function unitBytes(bits: QuantizedBits): number {
  return (unitWeights * bits) / 8;
}

/**
 * Stored numbers become f32 by way of their bits: q in the lowest bits of the f32 2^23 makes 2^23 + q, from which
 * 2^23 + zero point is subtracted, exactly. This is one instruction less for four weights than to extend and convert them.
 */
const raised = 2 ** 23;

/** The upper half of the bits of 2^23. */
const raisedHalf = 0x4b00;

/** The bits of the f32 2^23 + a zero point are these or'ed with the zero point. */
export const raisedBits: number = raisedHalf << 16;

/** 2^23 + the zero point of weights that are stored without one. */
export function middleOf(bits: QuantizedBits): number {
  return raised + 2 ** (bits - 1);
}

/** Lanes of 16 bits by turns from two vectors: the first four of each, or the last. */
const byTurns = (first: number): readonly number[] =>
  Array.from({ length: 16 }, (_, i) => 2 * (first + (i >> 2)) + (i & 1) + (i & 2 ? 16 : 0));

const firstByTurns = byTurns(0);
const lastByTurns = byTurns(4);

/** Four weights: a stored number less the zero point in each lane. `offset`: 2^23 + the zero point. */
export type FourWeights = (offset: Value<"v128">) => Value<"v128">;

/** Weights of a unit that are loaded together, in their order: of 4 bits all of it, of 8 bits half. */
type Load = (address: Arg<"i32">, offset?: number) => readonly FourWeights[];

/** Returns the loads of the 16 weights at an address. Emits constants at the place of the call: call it before loops. */
export function weightsOf(f: FunctionBuilder, bits: QuantizedBits): readonly Load[] {
  const upper = f.let(i16x8.const(raisedHalf));
  const fours = (words: Local<"v128">): readonly FourWeights[] =>
    [firstByTurns, lastByTurns].map(
      (turns) => (offset) => f32x4.sub(i8x16.shuffle(turns, words, upper), offset),
    );
  if (bits === 8)
    return [0, 8].map(
      (place) =>
        (address, offset = 0) =>
          fours(f.let(v128.load8x8U(address, offset + place))),
    );
  const nibble = f.let(i16x8.const(15));
  const load: Load = (address, offset) => {
    const bytes = f.let(v128.load8x8U(address, offset));
    const low = f.let(v128.and(bytes, nibble));
    const high = f.let(i16x8.shrU(bytes, 4));
    return [firstByTurns, lastByTurns].flatMap((turns) => fours(f.let(i8x16.shuffle(turns, low, high))));
  };
  return [load];
}
