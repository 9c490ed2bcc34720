/** Bytes of the binary format, nested as the parts were put together. */
export type Code = readonly (number | Code)[] | Uint8Array;

/** Value types of WebAssembly that kernels use, with their codes in the binary format. */
export const valueTypeCodes = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b } as const;

export type ValueType = keyof typeof valueTypeCodes;

const singleBytes: readonly Code[] = Array.from({ length: 128 }, (_, byte) => [byte]);

/** Unsigned LEB128. */
export function unsigned(value: number): Code {
  const single = singleBytes[value];
  if (single !== undefined) return single;
  const bytes: number[] = [];
  let rest = value;
  do {
    const low = rest % 128;
    rest = Math.floor(rest / 128);
    bytes.push(rest === 0 ? low : low | 0x80);
  } while (rest !== 0);
  return bytes;
}

/** Signed LEB128 of a 32-bit integer. */
export function signed(value: number): number[] {
  const bytes: number[] = [];
  let rest = value | 0;
  for (;;) {
    const low = rest & 0x7f;
    rest >>= 7;
    // The sign of the number must be the top bit of the last group of seven.
    if ((rest === 0 && (low & 0x40) === 0) || (rest === -1 && (low & 0x40) !== 0)) {
      bytes.push(low);
      return bytes;
    }
    bytes.push(low | 0x80);
  }
}

/** A name: its length in UTF-8 bytes, then the bytes. */
export function name(text: string): Code {
  const bytes = new TextEncoder().encode(text);
  return [unsigned(bytes.length), bytes];
}

/** A vector: the number of entries, then the entries. */
export function vector(entries: readonly Code[]): Code {
  return [unsigned(entries.length), entries];
}

/** A section or function body: its size in bytes, then its bytes. */
export function sized(code: Code): Code {
  const bytes = flatten(code);
  return [unsigned(bytes.length), bytes];
}

export function flatten(code: Code): Uint8Array<ArrayBuffer> {
  const buffer = new ByteBuffer();
  buffer.push(code);
  return buffer.toBytes();
}

/** Bytes in the order in which they were pushed. Nesting ends here. */
export class ByteBuffer {
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array(256);
  #length = 0;

  push(code: Code): void {
    if (code instanceof Uint8Array) {
      this.#reserve(code.length);
      this.#bytes.set(code, this.#length);
      this.#length += code.length;
      return;
    }
    this.#reserve(code.length);
    for (let i = 0; i < code.length; i++) {
      const part = code[i]!;
      if (typeof part === "number") this.#byte(part);
      else this.push(part);
    }
  }

  #byte(byte: number): void {
    if (this.#length === this.#bytes.length) this.#reserve(1);
    this.#bytes[this.#length++] = byte;
  }

  toBytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = new Uint8Array(2 * (this.#length + more));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}

const scalar = new DataView(new ArrayBuffer(8));

/** Little-endian bytes of one number of a vector or scalar type. */
export function littleEndian(type: "i8" | "i16" | "i32" | "f32" | "f64", value: number): number[] {
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
  return Array.from({ length: bytes }, (_, i) => scalar.getUint8(i));
}
