/**
 * Prints the output of several parts that run at the same time, in the order of the parts: that of the first
 * part that has not ended is printed as it comes, and the others wait for their turn.
 */
export class Transcript {
  readonly #print: (text: string) => void;
  readonly #waiting: string[];
  readonly #ended: boolean[];
  #current = 0;

  constructor(parts: number, print: (text: string) => void) {
    this.#print = print;
    this.#waiting = Array.from({ length: parts }, () => "");
    this.#ended = Array.from({ length: parts }, () => false);
  }

  write(part: number, text: string): void {
    if (part === this.#current) this.#print(text);
    else this.#waiting[part] += text;
  }

  end(part: number): void {
    this.#ended[part] = true;
    while (this.#ended[this.#current]) {
      this.#current++;
      const waiting = this.#waiting[this.#current];
      if (waiting) this.#print(waiting);
    }
  }
}
