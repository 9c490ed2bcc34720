/** First in, first out, in constant time. */
export class Fifo<Entry> {
  #entries: (Entry | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#entries.length - this.#head;
  }

  get first(): Entry | undefined {
    return this.#entries[this.#head];
  }

  some(test: (entry: Entry) => boolean): boolean {
    for (let i = this.#head; i < this.#entries.length; i++) if (test(this.#entries[i]!)) return true;
    return false;
  }

  clear(): void {
    this.#entries = [];
    this.#head = 0;
  }

  push(entry: Entry): void {
    this.#entries.push(entry);
  }

  shift(): Entry | undefined {
    if (this.length === 0) return undefined;
    const entry = this.#entries[this.#head];
    this.#entries[this.#head++] = undefined;
    if (this.#head > 1024 && this.#head > this.#entries.length / 2) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
    return entry;
  }
}
