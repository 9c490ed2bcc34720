import type { LawResult } from "../bench.js";
import { lawId } from "../law.js";
import type { Listeners } from "../suite.js";

/** The place where progress is written; `process.stdout` is one. */
export interface Screen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Shows how far a run is: one line that is drawn anew on a terminal, else a line for each topic. */
export interface ProgressDisplay extends Listeners {
  /** Removes the drawn progress, so that something else can be written. */
  clear(): void;
}

export function progressDisplay(screen: Screen): ProgressDisplay {
  return screen.isTTY === true ? new Bar(screen) : new Lines(screen);
}

/** Characters of the bar itself. */
const barWidth = 24;

/** Drawing more often than this cannot be seen. */
const drawMilliseconds = 60;

class Bar implements ProgressDisplay {
  readonly #screen: Screen;
  #drawn = 0;
  #broken = 0;
  readonly onStart: NonNullable<Listeners["onStart"]>;
  readonly onResult: NonNullable<Listeners["onResult"]>;

  constructor(screen: Screen) {
    this.#screen = screen;
    this.onStart = (law, { done, total, seed, round }) => {
      if (performance.now() - this.#drawn < drawMilliseconds) return;
      this.#drawn = performance.now();
      const full = Math.round((barWidth * done) / total);
      const bar = "█".repeat(full) + "░".repeat(barWidth - full);
      const broken = this.#broken === 0 ? "" : `  ${this.#broken} broken`;
      const line = `${bar} ${done}/${total}${broken}${round === 0 ? "" : `  seed ${seed}`}  ${lawId(law)}`;
      this.#screen.write(`\r\x1b[2K${line.slice(0, (this.#screen.columns ?? 80) - 1)}`);
    };
    this.onResult = ({ status }) => {
      if (status === "broken") this.#broken++;
    };
  }

  clear(): void {
    this.#screen.write("\r\x1b[2K");
  }
}

class Lines implements ProgressDisplay {
  #open: LawResult[] = [];
  readonly onResult: NonNullable<Listeners["onResult"]>;

  constructor(screen: Screen) {
    this.onResult = (result, { done, total, seed, round }) => {
      const [first] = this.#open;
      // Rounds after the first are short stories: one line each.
      if (round === 0 && first !== undefined && first.law.topic !== result.law.topic)
        this.#end(screen, first.law.topic);
      this.#open.push(result);
      if (done === total || (round > 0 && result.status === "unfinished"))
        this.#end(screen, round === 0 ? result.law.topic : `seed ${seed}`);
    };
  }

  #end(screen: Screen, title: string): void {
    const results = this.#open;
    this.#open = [];
    // The summary has one line for all operations that the backend lacks.
    if (results.every(({ status, law }) => status === "skipped" && law.operation !== undefined)) return;
    const counts = (["kept", "broken", "skipped", "unfinished"] as const)
      .map((status) => ({ status, count: results.filter((result) => result.status === status).length }))
      .filter(({ count }) => count > 0)
      .map(({ status, count }) => `${count} ${status}`);
    const seconds = results.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / 1000;
    screen.write(`${title.padEnd(14)} ${counts.join(", ")} (${seconds.toFixed(1)} s)\n`);
  }

  clear(): void {}
}
