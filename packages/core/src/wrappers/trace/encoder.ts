import {
  type Bytes,
  deepestValue,
  header,
  mostDigits,
  TracedOperand,
  type TraceRecord,
  tags,
} from "./format.js";

/** Bytes gather up to this size before the sink gets them. */
const chunkBytes = 2 ** 16;
/** Of the buffer, unless one record is larger. */
const usualBytes = 2 * chunkBytes;

const utf8 = new TextEncoder();

/** Writes records as bytes. */
export class TraceEncoder {
  readonly #texts = new Map<string, number>();
  #buffer: Bytes = new Uint8Array(usualBytes);
  #view = new DataView(this.#buffer.buffer);
  #length = 0;
  /** How many lists and objects the value that is written is in. */
  #depth = 0;

  constructor() {
    this.#append(header);
  }

  /** Whether there are enough bytes for the sink. */
  get isFull(): boolean {
    return this.#length >= chunkBytes;
  }

  /** Throws, and writes nothing, if a value cannot be written. */
  write(record: TraceRecord): void {
    const start = this.#length;
    const texts = this.#texts.size;
    try {
      this.#list(record);
    } catch (error) {
      this.#length = start;
      this.#depth = 0;
      for (const [text, number] of this.#texts) if (number >= texts) this.#texts.delete(text);
      throw error;
    }
    // The length comes before the record, which moves up for it.
    const length = this.#length - start;
    const size = sizeOfCount(length);
    this.#reserve(size);
    this.#buffer.copyWithin(start + size, start, this.#length);
    this.#length = start;
    this.#count(length);
    this.#length += length;
  }

  /** Returns what was written since the last time. */
  take(): Bytes {
    const chunk = this.#buffer.slice(0, this.#length);
    this.#length = 0;
    // A large array is no reason to keep as much memory to the end.
    if (this.#buffer.length > usualBytes) this.#replace(new Uint8Array(usualBytes));
    return chunk;
  }

  #value(value: unknown): void {
    if (typeof value === "number") this.#number(value);
    else if (typeof value === "object") this.#object(value);
    else if (typeof value === "string") this.#text(value);
    else if (typeof value === "boolean") this.#byte(value ? tags.true : tags.false);
    else if (value === undefined) this.#byte(tags.undefined);
    else if (typeof value === "bigint") this.#bigint(value);
    else throw new TypeError(`an argument is a ${typeof value}`);
  }

  #bigint(value: bigint): void {
    const digits = String(value);
    if (digits.length > mostDigits)
      throw new TypeError(`an argument is a bigint of more than ${mostDigits} digits`);
    this.#byte(tags.bigint);
    this.#text(digits);
  }

  #number(value: number): void {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) {
      this.#byte(tags.double);
      this.#reserve(8);
      this.#view.setFloat64(this.#length, value, true);
      this.#length += 8;
      return;
    }
    this.#byte(value < 0 ? tags.negative : tags.whole);
    this.#count(Math.abs(value));
  }

  #text(text: string): void {
    const known = this.#texts.get(text);
    if (known !== undefined) {
      this.#byte(tags.textAgain);
      this.#count(known);
      return;
    }
    this.#texts.set(text, this.#texts.size);
    const bytes = utf8.encode(text);
    this.#byte(tags.text);
    this.#count(bytes.length);
    this.#append(bytes);
  }

  #object(value: object | null): void {
    if (value === null) this.#byte(tags.null);
    else if (Array.isArray(value)) this.#list(value);
    else if (value instanceof TracedOperand) {
      const { handle, byteOffset } = value;
      this.#byte(byteOffset === undefined ? tags.handle : tags.slice);
      this.#count(handle);
      if (byteOffset !== undefined) this.#count(byteOffset);
    } else if (value instanceof Uint8Array) {
      this.#byte(tags.bytes);
      this.#count(value.length);
      this.#append(value);
    } else {
      const entries = Object.entries(value);
      this.#deeper();
      this.#byte(tags.object);
      this.#count(entries.length);
      for (const [name, held] of entries) {
        this.#text(name);
        this.#value(held);
      }
      this.#depth--;
    }
  }

  #list(values: readonly unknown[]): void {
    this.#deeper();
    this.#byte(tags.list);
    this.#count(values.length);
    // Holes in lists are written as undefined.
    for (let i = 0; i < values.length; i++) this.#value(values[i]);
    this.#depth--;
  }

  #deeper(): void {
    if (++this.#depth > deepestValue)
      throw new TypeError(`an argument is more than ${deepestValue} lists and objects in each other`);
  }

  #count(value: number): void {
    this.#reserve(8);
    let rest = value;
    for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) this.#buffer[this.#length++] = (rest % 0x80) + 0x80;
    this.#buffer[this.#length++] = rest;
  }

  #byte(value: number): void {
    this.#reserve(1);
    this.#buffer[this.#length++] = value;
  }

  #append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return;
    const larger = new Uint8Array(2 * (this.#length + bytes));
    larger.set(this.#buffer.subarray(0, this.#length));
    this.#replace(larger);
  }

  #replace(buffer: Bytes): void {
    this.#buffer = buffer;
    this.#view = new DataView(buffer.buffer);
  }
}

function sizeOfCount(value: number): number {
  let size = 1;
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) size++;
  return size;
}
