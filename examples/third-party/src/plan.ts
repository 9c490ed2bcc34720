import { decodeFloat16, type FloatType, float16ToBits } from "@backplane/core";
import { type Call, elementBytes, type Place } from "./checks.js";
import type { Bytes } from "./graph.js";

/** The work of a call: `compute` changes the output's bytes, given those of each input. */
export interface Plan {
  readonly output: Place;
  readonly inputs: readonly Place[];
  readonly compute: (output: Bytes, inputs: readonly Bytes[]) => void;
}

/** Checks the arguments of a call and plans it; undefined if there is nothing to do. */
export type Planner<Arguments> = (call: Call, args: Arguments, dtype: FloatType) => Plan | undefined;

/** The elements at a place as f32: in place for f32 itself, widened for f16. */
export function numbers(
  bytes: Bytes,
  { byteOffset, byteLength }: Place,
  dtype: FloatType = "f32",
): Float32Array {
  const count = byteLength / elementBytes[dtype];
  if (dtype === "f32") return new Float32Array(bytes.buffer, byteOffset, count);
  return decodeFloat16(new Uint16Array(bytes.buffer, byteOffset, count));
}

/** Stores single elements at a place, each rounded once. */
export function storing(
  bytes: Bytes,
  { byteOffset, byteLength }: Place,
  dtype: FloatType,
): (index: number, value: number) => void {
  if (dtype === "f32") {
    const elements = new Float32Array(bytes.buffer, byteOffset, byteLength / 4);
    return (index, value) => {
      elements[index] = value;
    };
  }
  const elements = new Uint16Array(bytes.buffer, byteOffset, byteLength / 2);
  return (index, value) => {
    elements[index] = float16ToBits(value);
  };
}
