import type { DType } from "@backplane/core";

/** An element of a result that lies outside of its bound, and what the two backends have there. */
export interface Finding {
  /** The operand that was written, such as `c`, `outputs[1]`, or `destination`. */
  readonly argument: string;
  /** The place of the worst element, in elements from the start of the operand; of a byte, in bytes. */
  readonly element: number;
  /** Undefined: a byte that is no part of the result, and should not have changed. */
  readonly dtype: DType | undefined;
  readonly first: number;
  /** Undefined if the second backend did not make the call. */
  readonly second: number | undefined;
  /** The exact result, in double precision. */
  readonly exact: number;
  /** How far a result may be from the exact one. The two may differ by twice as much. */
  readonly allowed: number;
  readonly wrong: "first" | "second" | "both";
  /** How many elements of this call lie outside of their bounds. */
  readonly wrongElements: number;
}

/** What the comparison of a call gave. */
export interface Judgement {
  readonly finding: Finding | undefined;
  /** Why the call could not be compared. */
  readonly reason: string | undefined;
}

/** The results of both backends at one place; of one, if the other did not make the call. */
export type Values = readonly [first: number, second: number | undefined];

/** Counts wrong elements and keeps the worst. */
export class Worst {
  #count = 0;
  #rank = -1;
  #finding: Finding | undefined;

  /** Notes an element. `isWrong` says which backend has a wrong result. */
  note(
    at: Pick<Finding, "argument" | "element" | "dtype">,
    [first, second]: Values,
    { exact, allowed }: Pick<Finding, "exact" | "allowed">,
    isWrong: readonly [boolean, boolean],
  ): void {
    this.#count++;
    const errors = [first, second].map((value, side) =>
      isWrong[side] === true ? excess(value!, exact, allowed) : -1,
    );
    const rank = Math.max(...errors);
    if (rank <= this.#rank) return;
    this.#rank = rank;
    const wrong = isWrong[0] && isWrong[1] ? "both" : undefined;
    this.#finding = {
      ...{ ...at, first, second, exact, allowed },
      ...{ wrong: wrong ?? (isWrong[0] ? "first" : "second"), wrongElements: 0 },
    };
  }

  get finding(): Finding | undefined {
    return this.#finding && { ...this.#finding, wrongElements: this.#count };
  }
}

/** How many times the bound an error is, and by its size where none is allowed. NaN is worst. */
function excess(value: number, exact: number, allowed: number): number {
  const error = Math.abs(value - exact);
  if (Number.isNaN(error)) return Number.POSITIVE_INFINITY;
  return allowed === 0 ? 2 ** 64 * error : error / allowed;
}
