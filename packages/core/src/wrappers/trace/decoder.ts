import { BackendError } from "../../errors.js";
import {
  type Bytes,
  deepestValue,
  header,
  mostDigits,
  TracedOperand,
  type TraceRecord,
  tags,
} from "./format.js";
import { problemOf } from "./shapes.js";

/** A trace, whole or in pieces: bytes, or anything that gives them one after the other, such as a stream of a file. */
export type TraceSource = Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

const operation = "replayTrace";

/** Returns the error of a source that is no trace, or not a whole one. */
export function badSource(problem: string): BackendError {
  const message = `${operation}: source ${problem}; allowed: what a TraceBackend wrote`;
  return new BackendError("INVALID_ARGUMENT", message, { operation, argument: "source" });
}

/**
 * Reads records, one after the other, up to the end of the source. Throws `INVALID_ARGUMENT` if the source is no trace, is of
 * another version, or is damaged. Returns whether it ended within a record, which is left out.
 */
export async function* recordsIn(source: TraceSource): AsyncGenerator<TraceRecord, boolean, void> {
  const reader = new RecordReader();
  const isBytes = source instanceof Uint8Array;
  if (!isBytes && !(Symbol.asyncIterator in Object(source)) && !(Symbol.iterator in Object(source)))
    throw badSource("is neither bytes nor gives any");
  for await (const piece of isBytes ? [source] : source) {
    if (!(piece instanceof Uint8Array)) throw badSource("gives something other than bytes");
    reader.add(piece);
    for (let record = reader.next(); record !== undefined; record = reader.next()) yield record;
  }
  reader.assertHeader();
  return reader.hasRest;
}

/** A count longer than this is none that was written. */
const longestCount = 8;

const utf8 = new TextDecoder("utf-8", { fatal: true });

class RecordReader {
  #bytes: Bytes = new Uint8Array(0);
  /** Pieces after `#bytes`, which are joined with it when the record that it ends in is whole. */
  #pieces: Bytes[] = [];
  #pieceBytes = 0;
  /** How many bytes from `#at` on the next record takes, with its length; 0 if that is not known. */
  #wanted = 0;
  #view = new DataView(this.#bytes.buffer);
  /** The next byte to read, and the end of the record that is read. */
  #at = 0;
  #end = 0;
  /** How many lists and objects the value that is read is in. */
  #depth = 0;
  /** Bytes of the source before `#bytes`. */
  #before = 0;
  #isBegun = false;
  readonly #texts: string[] = [];

  get hasRest(): boolean {
    return this.#pieceBytes > 0 || this.#at < this.#bytes.length;
  }

  add(piece: Uint8Array): void {
    const rest = this.#bytes.subarray(this.#at);
    const length = rest.length + this.#pieceBytes + piece.length;
    if (length < this.#wanted) {
      // Whose it is may use it again.
      this.#pieces.push(piece.slice());
      this.#pieceBytes += piece.length;
      return;
    }
    const joined = new Uint8Array(length);
    let at = 0;
    for (const part of [rest, ...this.#pieces, piece]) {
      joined.set(part, at);
      at += part.length;
    }
    this.#before += this.#at;
    this.#bytes = joined;
    this.#view = new DataView(joined.buffer);
    this.#at = 0;
    this.#pieces = [];
    this.#pieceBytes = 0;
    this.#wanted = 0;
  }

  /** Throws unless there was a header. */
  assertHeader(): void {
    if (this.#isBegun) return;
    const seen = this.#bytes.subarray(0, header.length);
    const isCut = seen.length < header.length && seen.every((byte, i) => byte === header[i]);
    if (isCut) throw badSource(`was cut off after ${seen.length} bytes, before its first record`);
    const version = seen[header.length - 1];
    if (version !== undefined && seen.subarray(0, -1).every((byte, i) => byte === header[i]))
      throw badSource(`is a trace of version ${version}; this reads version ${header.at(-1)}`);
    throw badSource("is no trace: it does not begin as one");
  }

  /** Returns the next record; undefined if it is not all here. */
  next(): TraceRecord | undefined {
    if (!this.#isBegun) {
      if (this.#bytes.length < header.length) return undefined;
      if (!header.every((byte, i) => byte === this.#bytes[i])) this.assertHeader();
      this.#isBegun = true;
      this.#at = header.length;
    }
    const start = this.#at;
    const length = this.#lengthOfRecord();
    if (length === undefined || this.#at + length > this.#bytes.length) {
      if (length !== undefined) this.#wanted = this.#at - start + length;
      this.#at = start;
      return undefined;
    }
    this.#end = this.#at + length;
    const record = this.#value();
    if (this.#at !== this.#end) throw this.#damaged("a record has another length than it says");
    const problem = problemOf(record);
    if (problem !== undefined) throw this.#damaged(problem);
    return record as TraceRecord;
  }

  #lengthOfRecord(): number | undefined {
    const available = Math.min(this.#bytes.length - this.#at, longestCount);
    for (let i = 0; i < available; i++)
      if (this.#bytes[this.#at + i]! < 0x80) {
        this.#end = this.#bytes.length;
        return this.#count();
      }
    if (available === longestCount) throw this.#damaged("the length of a record is none");
    return undefined;
  }

  #value(): unknown {
    const tag = this.#byte();
    switch (tag) {
      case tags.undefined:
        return undefined;
      case tags.null:
        return null;
      case tags.false:
        return false;
      case tags.true:
        return true;
      case tags.whole:
        return this.#count();
      case tags.negative:
        return -this.#count();
      case tags.double:
        this.#need(8);
        this.#at += 8;
        return this.#view.getFloat64(this.#at - 8, true);
      case tags.bigint:
        return this.#bigint();
      case tags.text:
      case tags.textAgain:
        return this.#text(tag);
      case tags.list:
        return this.#several(() => this.#value());
      case tags.object:
        return Object.fromEntries(this.#several(() => [this.#text(this.#byte()), this.#value()] as const));
      case tags.handle:
        return new TracedOperand(this.#count(), undefined);
      case tags.slice:
        return new TracedOperand(this.#count(), this.#count());
      case tags.bytes:
        return this.#take(this.#length()).slice();
      default:
        throw this.#damaged(`a value begins with ${tag}`);
    }
  }

  #several<Value>(read: () => Value): Value[] {
    if (++this.#depth > deepestValue)
      throw this.#damaged(`more than ${deepestValue} lists and objects are in each other`);
    const values = Array.from({ length: this.#length() }, read);
    this.#depth--;
    return values;
  }

  #bigint(): bigint {
    const digits = this.#text(this.#byte());
    if (digits.length > mostDigits) throw this.#damaged(`a number has more than ${mostDigits} digits`);
    if (!/^-?\d+$/.test(digits)) throw this.#damaged("a number has other characters than digits");
    return BigInt(digits);
  }

  #text(tag: number): string {
    if (tag === tags.textAgain) {
      const text = this.#texts[this.#count()];
      if (text === undefined) throw this.#damaged("a text is missing");
      return text;
    }
    if (tag !== tags.text) throw this.#damaged("there is no text where one should be");
    try {
      const text = utf8.decode(this.#take(this.#length()));
      this.#texts.push(text);
      return text;
    } catch (error) {
      throw error instanceof BackendError ? error : this.#damaged("a text is not UTF-8");
    }
  }

  /** A number of bytes or values, which the record must have room for. */
  #length(): number {
    const length = this.#count();
    this.#need(length);
    return length;
  }

  #count(): number {
    let value = 0;
    for (let i = 0, scale = 1; i < longestCount; i++, scale *= 0x80) {
      const byte = this.#byte();
      value += (byte % 0x80) * scale;
      if (byte < 0x80 && Number.isSafeInteger(value)) return value;
    }
    throw this.#damaged("a number is too large");
  }

  #byte(): number {
    this.#need(1);
    return this.#bytes[this.#at++]!;
  }

  #take(length: number): Bytes {
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  #need(length: number): void {
    if (this.#at + length > this.#end) throw this.#damaged("a record ends too early");
  }

  #damaged(problem: string): BackendError {
    return badSource(`is damaged at byte ${this.#before + this.#at}: ${problem}`);
  }
}
