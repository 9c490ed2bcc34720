/** Turns text into tokens and tokens into text. */
export interface Tokenizer {
  /** Tokens that there are. */
  readonly size: number;
  /** Stands before every text. */
  readonly start: number;
  /** Tokens that end a text. */
  readonly stops: ReadonlySet<number>;
  /** The tokens of a text, with `start` before them. */
  encode(text: string): number[];
  /** The bytes of UTF-8 that a token stands for; a character may be spread over several tokens. */
  bytesOf(token: number, isFirst: boolean): Uint8Array;
}

/** A decoder would take a byte-order mark at the beginning away; here it is text like any other. */
const withMark = { ignoreBOM: true } as const;

/** The text that bytes of UTF-8 stand for. */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", withMark).decode(bytes);
}

/** Joins the bytes of tokens to text, holding back bytes of a character that is not complete. */
export class TextJoiner {
  readonly #tokenizer: Tokenizer;
  readonly #decoder = new TextDecoder("utf-8", withMark);
  #isFirst: boolean;

  /** @param isFirst whether the next token is the first one after the start */
  constructor(tokenizer: Tokenizer, isFirst: boolean) {
    this.#tokenizer = tokenizer;
    this.#isFirst = isFirst;
  }

  add(token: number): string {
    const text = this.#decoder.decode(this.#tokenizer.bytesOf(token, this.#isFirst), { stream: true });
    this.#isFirst = false;
    return text;
  }
}
