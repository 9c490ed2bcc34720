/** The place where progress is shown: a terminal, a file or a pipe. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

const barWidth = 24;
const millisecondsPerFrame = 80;
/** Away from a terminal a stage gets about this many lines. */
const linesPerStage = 4;

/**
 * One bar for each stage of the work. In a terminal the bar is redrawn in place; elsewhere it becomes a
 * few plain lines, without control codes.
 */
export class ProgressBar {
  readonly #output: Output;
  readonly #title: string;
  #drawnAt = Number.NEGATIVE_INFINITY;
  #linesDrawn = 0;

  constructor(output: Output, title: string) {
    this.#output = output;
    this.#title = title;
  }

  /** `fraction`: how much is done, 0 to 1. At 1 the bar is complete and stays. */
  show(fraction: number, text: string): void {
    if (this.#output.isTTY) this.#redraw(fraction, text);
    else this.#print(fraction, text);
  }

  #redraw(fraction: number, text: string): void {
    const now = performance.now();
    const isDone = fraction >= 1;
    if (!isDone && now - this.#drawnAt < millisecondsPerFrame) return;
    this.#drawnAt = now;
    const line = this.#line(fraction, text).slice(0, (this.#output.columns || 80) - 1);
    // Return to the start of the line and clear the rest of a longer text.
    this.#output.write(`\r${line}\x1b[K${isDone ? "\n" : ""}`);
  }

  #print(fraction: number, text: string): void {
    const due = Math.floor(fraction * linesPerStage);
    if (due <= this.#linesDrawn) return;
    this.#linesDrawn = due;
    this.#output.write(`${this.#line(fraction, text)}\n`);
  }

  #line(fraction: number, text: string): string {
    const full = Math.round(Math.min(fraction, 1) * barWidth);
    const bar = "█".repeat(full) + "░".repeat(barWidth - full);
    const percent = `${Math.floor(Math.min(fraction, 1) * 100)}%`;
    return `${this.#title.padEnd(12)} ${bar} ${percent.padStart(4)}  ${text}`;
  }
}
