import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import type { Case } from "./cases/case.js";
import type { Contender } from "./contender.js";

/** An anchor's answer to a line; it has `error` if it cannot do what was asked. */
type Answer = Readonly<Record<string, unknown>> & { readonly error?: string };

/**
 * Another implementation in a process of its own, to compare with. It reads one JSON object per line from its
 * standard input and writes one answer each to its standard output (bench/README.md has the questions).
 */
export class Anchor {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: Interface;
  readonly #waiting: { resolve: (answer: Answer) => void; reject: (error: Error) => void }[] = [];
  #ended: string | undefined;

  private constructor(command: string) {
    this.#child = spawn(command, { shell: true, stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.#child.stdout });
    this.#lines.on("line", (line) => this.#answer(line));
    const end = (reason: string) => {
      this.#ended ??= reason;
      for (const { reject } of this.#waiting.splice(0)) reject(new Error(this.#ended));
    };
    this.#child.stdin.on("error", (error) => end(`the anchor does not listen: ${error.message}`));
    this.#child.once("error", (error) => end(`the anchor cannot be started: ${error.message}`));
    this.#child.once("close", (code, signal) =>
      end(`the anchor ended with ${signal ?? `exit code ${code}`}`),
    );
  }

  /** Starts it, and returns its description of itself. */
  static async start(command: string): Promise<{ anchor: Anchor; about: Answer }> {
    const anchor = new Anchor(command);
    return { anchor, about: await anchor.ask({ do: "about" }) };
  }

  /** Lets it prepare a case. Rejects if it cannot. */
  async open(test: Case): Promise<Contender> {
    await this.ask({ do: "open", problem: test.problem });
    return {
      sample: async ({ sample, warmUp }) => {
        const { seconds } = await this.ask({ do: "sample", sample, warmUp });
        if (typeof seconds !== "number") throw new Error(`the anchor answered ${String(seconds)} seconds`);
        return seconds;
      },
      close: async () => {
        await this.ask({ do: "close" });
      },
    };
  }

  /** Ends the process, by closing its input. */
  async stop(): Promise<void> {
    if (this.#ended !== undefined) return;
    const closed = new Promise((resolve) => this.#child.once("close", resolve));
    this.#child.stdin.end();
    await closed;
  }

  /** Asks anything, and returns the answer. Rejects if it cannot do that. */
  ask(question: Readonly<Record<string, unknown>>): Promise<Answer> {
    if (this.#ended !== undefined) return Promise.reject(new Error(this.#ended));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#child.stdin.write(`${JSON.stringify(question)}\n`);
    });
  }

  #answer(line: string): void {
    // Libraries may print before the first question; lines that are not JSON objects are theirs.
    if (!line.startsWith("{")) return;
    const asker = this.#waiting.shift();
    const answer = JSON.parse(line) as Answer;
    if (answer.error === undefined) asker?.resolve(answer);
    else asker?.reject(new Error(`anchor: ${answer.error}`));
  }
}
