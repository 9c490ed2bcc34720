import { type DType, dtypeBytes, elementTypes } from "@backplane/core";
import { random } from "../../data.js";
import { storages } from "../../elements.js";

const { POSITIVE_INFINITY: infinity, NaN: nan } = Number;

/** Bit patterns of NaNs: quiet and signalling ones, of either sign, with bits of their own. */
const nanBits: Readonly<Partial<Record<DType, readonly number[]>>> = {
  f32: [0x7fc00000, 0x7f800001, 0xffc12345, 0xff923456, 0x7fffffff],
  f16: [0x7e00, 0x7c01, 0xfe12, 0xfd23, 0x7fff],
  bf16: [0x7fc0, 0x7f81, 0xffc1, 0xff92, 0x7fff],
};

/** Numbers at which some conversion changes: to halves, bytes, 16-bit floats and integers of 32 bits. */
const corners: readonly number[] = [
  ...[0, -0, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 3.999, 127, 128, 254.5, 255, 255.5, 255.999, 256, 257, 511.75],
  ...[1000.5, 2047, 2048, 2049, 2051, 4098, 65503, 65504, 65519.996, 65520, 65536, 70000],
  // Halfway between two numbers of f16 and of bf16, and next to it.
  ...[1 + 2 ** -11, 1 + 3 * 2 ** -11, 1 + 2 ** -11 + 2 ** -23, 1 + 2 ** -11 - 2 ** -23],
  ...[1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -23, 1 + 2 ** -8 - 2 ** -23, 2 - 2 ** -23],
  // Subnormal halves, and what is too small for them.
  ...[
    2 ** -14,
    2 ** -14 - 2 ** -25,
    2 ** -15 + 2 ** -25,
    3 * 2 ** -25,
    2 ** -24,
    2 ** -25,
    2 ** -25 + 2 ** -40,
  ],
  // Subnormal numbers of f32 and bf16.
  ...[2 ** -126, 2 ** -126 - 2 ** -149, 2 ** -127 + 2 ** -134, 3 * 2 ** -134, 2 ** -134, 2 ** -149, 1e-40],
  // Integers around 2^24, where f32 begins to round, and ties of f32 and bf16 at which a bit far below decides.
  ...[
    2 ** 24 - 1,
    2 ** 24,
    2 ** 24 + 1,
    2 ** 24 + 3,
    2 ** 25 + 2,
    2 ** 25 + 6,
    2 ** 24 + 2 ** 16,
    3 * 2 ** 23 + 1,
  ],
  ...[
    2 ** 24 + 2 ** 16 + 1,
    2 ** 28 + 2 ** 20 + 1,
    2 ** 28 + 3 * 2 ** 20 - 1,
    2 ** 30 + 2 ** 22 + 1,
    2 ** 30 + 65,
  ],
  ...[2 ** 31 - 129, 2 ** 31 - 128, 2 ** 31 - 65, 2 ** 31 - 64, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 128],
  ...[
    2 ** 31 + 2 ** 23 + 1,
    2 ** 32 - 2 ** 23 - 1,
    2 ** 32 - 257,
    2 ** 32 - 128,
    2 ** 32 - 1,
    2 ** 32,
    2 ** 33,
  ],
  ...[1e20, 2 ** 127, 2 ** 128 - 2 ** 119, 2 ** 128 - 2 ** 119 - 2 ** 104, 2 ** 128 - 2 ** 104, infinity],
];

/** Returns elements as stored: numbers at which conversions change, of either sign, and then any bits at all. */
export function cornerElements(dtype: DType, least: number): Uint8Array<ArrayBuffer> {
  const { range, toBits, bytes: size } = elementTypes[dtype];
  const numbers = corners.flatMap((value) => [value, -value]);
  const held =
    range === undefined
      ? [...numbers, nan]
      : numbers.filter((value) => Number.isInteger(value) && value >= range[0] && value <= range[1]);
  const bits = [...held.map((value) => toBits(value)), ...(nanBits[dtype] ?? [])];
  const next = random(size);
  while (bits.length < least) bits.push(Math.floor(next() * 2 ** (8 * size)));
  const bytes = new Uint8Array(bits.length * size);
  const view = new DataView(bytes.buffer);
  for (const [i, pattern] of bits.entries()) setBits[size](view, i * size, pattern);
  return bytes;
}

/** Every bit pattern of a type of 1 or 2 bytes. */
export function everyElement(dtype: DType): Uint8Array<ArrayBuffer> {
  const size = dtypeBytes[dtype];
  if (size === 1) return Uint8Array.from({ length: 256 }, (_, i) => i);
  return new Uint8Array(Uint16Array.from({ length: 2 ** 16 }, (_, i) => i).buffer);
}

const setBits: Readonly<Record<1 | 2 | 4, (view: DataView, byte: number, bits: number) => void>> = {
  1: (view, byte, bits) => view.setUint8(byte, bits),
  2: (view, byte, bits) => view.setUint16(byte, bits, true),
  4: (view, byte, bits) => view.setUint32(byte, bits, true),
};

/** Returns one of some stored elements as a number. */
export function numberOf(bytes: Uint8Array<ArrayBuffer>, place: number, dtype: DType): number {
  const { words, decode } = storages[dtype];
  return decode(words(bytes.buffer, bytes.byteOffset + place * dtypeBytes[dtype], 1)[0]!);
}
