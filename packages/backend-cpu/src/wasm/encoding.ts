import { nodeProcess } from "../node-process.js";

/**
 * Bytes of the binary format, as a string with one character for each byte. Engines join strings in constant
 * time and flatten them natively, once, at the end. Nested arrays of numbers took several times as long to
 * make, to collect and to flatten.
 */
export type Code = string;

/** Value types of WebAssembly that kernels use, with their codes in the binary format. */
export const valueTypeCodes = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b } as const;

export type ValueType = keyof typeof valueTypeCodes;

const singleBytes: readonly Code[] = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));

/** Encodes bytes as they are. */
export function raw(...bytes: readonly number[]): Code {
  let code = "";
  for (let i = 0; i < bytes.length; i++) code += singleBytes[bytes[i]!];
  return code;
}

/** Unsigned LEB128. */
export function unsigned(value: number): Code {
  let code = "";
  let rest = value;
  while (rest >= 128) {
    code += singleBytes[(rest % 128) | 0x80];
    rest = Math.floor(rest / 128);
  }
  return code + singleBytes[rest];
}

/** Signed LEB128 of a 32-bit integer. */
export function signed(value: number): Code {
  let code = "";
  let rest = value | 0;
  // The sign of the number must be the top bit of the last group of seven.
  while (rest < -64 || rest >= 64) {
    code += singleBytes[(rest & 0x7f) | 0x80];
    rest >>= 7;
  }
  return code + singleBytes[rest & 0x7f];
}

/** A name: its length in UTF-8 bytes, then the bytes. */
export function name(text: string): Code {
  return sized(raw(...new TextEncoder().encode(text)));
}

/** A vector: the number of entries, then the entries. */
export function vector(entries: readonly Code[]): Code {
  return unsigned(entries.length) + entries.join("");
}

/** A section or function body: its size in bytes, then its bytes. */
export function sized(code: Code): Code {
  return unsigned(code.length) + code;
}

/** Returns the code as bytes. */
export function flatten(code: Code): Uint8Array<ArrayBuffer> {
  // Use native code if there is any: the loop runs only once, and ends before it is compiled.
  const native = nodeProcess?.getBuiltinModule("node:buffer").Buffer;
  if (native !== undefined) return new Uint8Array(native.from(code, "latin1"));
  const bytes = new Uint8Array(code.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = code.charCodeAt(i);
  return bytes;
}

/** Returns the bytes of several arrays, one after the other. */
export function concatenated(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

const scalar = new DataView(new ArrayBuffer(8));
const scalarBytes = new Uint8Array(scalar.buffer);

/** Returns the little-endian bytes of one number of a vector or scalar type. */
export function littleEndian(type: "i8" | "i16" | "i32" | "f32" | "f64", value: number): Code {
  let bytes = 4;
  if (type === "i8") {
    scalar.setInt8(0, value);
    bytes = 1;
  } else if (type === "i16") {
    scalar.setInt16(0, value, true);
    bytes = 2;
  } else if (type === "i32") {
    scalar.setInt32(0, value, true);
  } else if (type === "f32") {
    scalar.setFloat32(0, value, true);
  } else {
    scalar.setFloat64(0, value, true);
    bytes = 8;
  }
  let code = "";
  for (let i = 0; i < bytes; i++) code += singleBytes[scalarBytes[i]!];
  return code;
}
