/** Counts and times the tokens of a text, and of the backend in use. */
export class Meter {
  #start = performance.now();
  /** When the first token was there: what came before is the prompt, or the swap. */
  #first = 0;
  /** When the last token was there: what comes after is no part of the rate. */
  #last = 0;
  #count = 0;
  #total = 0;

  /** Tokens of the text. */
  get total(): number {
    return this.#total;
  }

  /** A token is there. */
  count(): void {
    this.#last = performance.now();
    if (this.#count === 0) this.#first = this.#last;
    this.#count += 1;
    this.#total += 1;
  }

  /** Another backend goes on. */
  restart(): void {
    this.#start = performance.now();
    this.#count = 0;
  }

  /** What is known of the backend in use, in words. */
  toString(): string {
    if (this.#count === 0) return "no token yet";
    const first = `first token after ${(this.#first - this.#start).toFixed(0)} ms`;
    if (this.#count === 1) return first;
    const seconds = (this.#last - this.#first) / 1000;
    const rate = (this.#count - 1) / seconds;
    return `${first}, then ${Math.round(rate).toLocaleString("en-US")} tokens/s`;
  }
}
