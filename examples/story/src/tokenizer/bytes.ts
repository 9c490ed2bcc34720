import type { Tokenizer } from "./tokenizer.js";

const NEWLINE = 0x0a;

/** The bytes of UTF-8 as tokens: 256 of them, for any text. A text starts as if after the end of a line. */
export class ByteTokenizer implements Tokenizer {
  readonly size = 256;
  readonly start = NEWLINE;
  readonly stops: ReadonlySet<number> = new Set();

  encode(text: string): number[] {
    return [this.start, ...new TextEncoder().encode(text)];
  }

  bytesOf(token: number): Uint8Array {
    return Uint8Array.of(token);
  }
}
