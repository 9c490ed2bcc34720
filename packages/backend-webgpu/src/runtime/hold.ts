import type { Pipeline } from "./pipelines.js";
import type { PreparedDispatch } from "./prepared.js";

/**
 * Commands that wait for pipelines at most. A program that enqueues more without letting events happen waits for the pipelines
 * itself, since nobody would learn that they are there.
 */
const MOST_COMMANDS = 4096;
/** Bytes to be written between such commands, of which there are copies. */
const MOST_BYTES = 1 << 26;

/** A dispatch, or a write between dispatches. */
export type HeldCommand = PreparedDispatch | (() => void);

/** Commands that wait in their order, because one of them needs a pipeline that the device has not compiled yet. */
export class Hold {
  /** Resolves when nothing is held any more. */
  readonly released: Promise<void>;
  readonly #commands: HeldCommand[] = [];
  #next = 0;
  /** Pipelines that are being compiled. */
  readonly #pending = new Set<Pipeline>();
  #bytes = 0;
  #release = (): void => {};

  constructor() {
    this.released = new Promise((resolve) => {
      this.#release = resolve;
    });
  }

  /** Commands so far, those included that are submitted. */
  get length(): number {
    return this.#commands.length;
  }

  /** The first command that is not submitted. */
  get next(): number {
    return this.#next;
  }

  /** The first command after that whose pipeline is still being compiled. */
  get readyEnd(): number {
    let end = this.#next;
    while (end < this.length && isReady(this.#commands[end]!)) end++;
    return end;
  }

  /** Adds a command. Returns whether there are so many that they should wait no longer. Each pipeline calls `onReady` when it is there. */
  add(command: PreparedDispatch, onReady: () => void): boolean {
    const { pipeline } = command;
    this.#commands.push(command);
    if (pipeline.compiling !== undefined && !this.#pending.has(pipeline)) {
      this.#pending.add(pipeline);
      void pipeline.compiling.then(() => {
        this.#pending.delete(pipeline);
        onReady();
      });
    }
    return this.length - this.#next >= MOST_COMMANDS;
  }

  /** The same for a write; `bytes`: of the copy of what it writes. */
  addWrite(bytes: number, write: () => void): boolean {
    this.#commands.push(write);
    this.#bytes += bytes;
    return this.#bytes > MOST_BYTES;
  }

  /** Returns the next command, which counts as submitted from now on. */
  take(): HeldCommand {
    return this.#commands[this.#next++]!;
  }

  /** Nothing is held any more. */
  release(): void {
    this.#release();
  }
}

function isReady(command: HeldCommand): boolean {
  return typeof command === "function" || command.pipeline.compiling === undefined;
}
